import { readdirSync, readFileSync } from 'node:fs'

type Marked = { pid: number; command: string; environment: string[] }

/** Every process of this machine whose command or environment names this text. What may not be read is somebody else's. */
export function findMarked(text: string): Marked[] {
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  return pids.flatMap((pid) => {
    if (pid === process.pid) return []
    const command = readIfAllowed(`/proc/${pid}/cmdline`)
    const environment = readIfAllowed(`/proc/${pid}/environ`)
    if (!command.includes(text) && !environment.includes(text)) return []
    // What has ended, and was not asked for by its parent yet, has neither.
    return [{ pid, command: command.replaceAll('\0', ' ').trim(), environment: environment.split('\0') }]
  })
}

function readIfAllowed(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}

/** One that has ended meanwhile needs no signal. */
export function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
