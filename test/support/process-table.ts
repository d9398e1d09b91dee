import { closeSync, openSync, readdirSync, readSync } from 'node:fs'
import { setImmediate as nextTurn } from 'node:timers/promises'

/** A process that is no mere remains of one. `born` is in ticks since the boot. */
export type Seen = { pid: number; parent: number; state: string; born: number }

/** Within this time no pid comes around again: for that, tens of thousands of processes would have to be started. */
const PID_REUSE_MS_MIN = 1000

const buffer = Buffer.alloc(256 * 1024)
const BORN = Number(fieldsOf(process.pid)[19])

/** Whoever is older than this process is none of those that it has started, and need not be looked at for a while. */
let old = new Set<number>()
let oldSince = 0
const environments = new Map<number, { born: number; entries: Set<string> }>()

/** All that are younger than this process. Of the others nothing is ever wanted. */
export function listProcesses(): Seen[] {
  const now = performance.now()
  if (now - oldSince > PID_REUSE_MS_MIN) [old, oldSince] = [new Set(), now]
  const pids = readdirSync('/proc').map(Number).filter(Number.isInteger)
  const seen = pids.filter((pid) => !old.has(pid)).flatMap((pid) => readStat(pid) ?? [])
  const alive = new Set(seen.map(({ pid }) => pid))
  for (const pid of environments.keys()) if (!alive.has(pid)) environments.delete(pid)
  return seen
}

let looking: Promise<Seen[]> | undefined

/** The same, for all who ask at once: to look at every process costs milliseconds, and many containers may end together. */
export function lookAtProcesses(): Promise<Seen[]> {
  looking ??= nextTurn().then(() => {
    looking = undefined
    return listProcesses()
  })
  return looking
}

/** Whether it has this in its environment: in the first one that was seen of it, which it may have exchanged since. */
export function carries({ pid, born }: Seen, entry: string): boolean {
  const known = environments.get(pid)
  if (known?.born === born) return known.entries.has(entry)
  const entries = new Set(readIfThere(`/proc/${pid}/environ`).split('\0'))
  // It is empty for a moment in which a program becomes another one.
  if (entries.size > 1) environments.set(pid, { born, entries })
  return entries.has(entry)
}

function readStat(pid: number): Seen | undefined {
  const fields = fieldsOf(pid)
  const [state, parent] = fields
  const born = Number(fields[19])
  if (!state || 'ZX'.includes(state)) return undefined
  if (born >= BORN) return { pid, parent: Number(parent), state, born }
  old.add(pid)
  return undefined
}

/** Behind the program's name, which may contain anything: state, parent, …, and the birth as the twentieth. */
function fieldsOf(pid: number): string[] {
  const line = readIfThere(`/proc/${pid}/stat`)
  return line.slice(line.lastIndexOf(')') + 2).split(' ')
}

/** What has ended, or belongs to somebody else, is none of ours. */
export function readIfThere(file: string): string {
  let opened: number | undefined
  try {
    opened = openSync(file, 'r')
    let length = 0
    for (let read = -1; read !== 0 && length < buffer.length; length += read)
      read = readSync(opened, buffer, length, buffer.length - length, null)
    return buffer.toString('latin1', 0, length)
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
    throw error
  } finally {
    if (opened !== undefined) closeSync(opened)
  }
}
