import { readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'

/**
 * What a virtual machine would do for us. The processes of a sandbox are those that carry its mark in the environment that they
 * were started with, wherever they have gone since, and all that descend from those. One that has thrown the mark away and lost
 * its parents is not found.
 */
export const MARK = 'E2B_SANDBOX_ID'

type Seen = { pid: number; parent: number; state: string; born: number }

const BORN = Number(fieldsOf(process.pid)[19])
const STANDSTILL_MS_MAX = 10_000
const DEATH_MS_MAX = 10_000
const LOOK_AGAIN_MS = 2

export function findProcesses(sandboxId: string): Seen[] {
  const seen = listProcesses()
  // Whoever is older than this process is none of them, and its environment need not be read.
  const young = seen.filter(({ born }) => born >= BORN)
  const found = new Set(young.filter(({ pid }) => hasMark(pid, sandboxId)).map(({ pid }) => pid))
  for (let before = -1; before !== found.size; ) {
    before = found.size
    for (const { pid, parent } of seen) if (found.has(parent)) found.add(pid)
  }
  return seen.filter(({ pid }) => found.has(pid) && pid !== process.pid)
}

/** Stops all of them, and returns when twice in a row the same ones were seen to stand still. */
export async function freeze(sandboxId: string): Promise<void> {
  let before: string | undefined
  const until = Date.now() + STANDSTILL_MS_MAX
  while (Date.now() < until) {
    const all = findProcesses(sandboxId)
    const stopped = new Set(all.filter(({ state }) => 'Tt'.includes(state)).map(({ pid }) => pid))
    const moving = all.filter(({ pid }) => !stopped.has(pid))
    for (const { pid } of moving) signal(pid, 'SIGSTOP')
    // One in the middle of a vfork waits for its child, which was stopped first: it does not move either.
    const waits = ({ pid, state }: Seen) =>
      state === 'D' && all.some((one) => one.parent === pid && stopped.has(one.pid))
    const now = moving.every(waits) ? all.map(({ pid }) => pid).join(' ') : undefined
    if (now !== undefined && now === before) return
    before = now
    if (moving.length > 0) await sleep(LOOK_AGAIN_MS)
  }
  throw new Error(`The processes of ${sandboxId} cannot be stopped.`)
}

export function thaw(sandboxId: string): void {
  for (const { pid } of findProcesses(sandboxId)) signal(pid, 'SIGCONT')
}

/** Stopped before they are killed, so that none of them sees another one die and goes on. */
export async function killAll(sandboxId: string): Promise<void> {
  const until = Date.now() + DEATH_MS_MAX
  while (Date.now() < until) {
    const left = findProcesses(sandboxId)
    if (left.length === 0) return
    for (const { pid } of left) signal(pid, 'SIGSTOP')
    for (const { pid } of left) signal(pid, 'SIGKILL')
    await sleep(LOOK_AGAIN_MS)
  }
  throw new Error(`The processes of ${sandboxId} do not end.`)
}

/** One that has ended meanwhile needs no signal. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}

function listProcesses(): Seen[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .flatMap((name) => {
      const fields = fieldsOf(name)
      const [state, parent] = fields
      return !state || 'ZX'.includes(state)
        ? []
        : [{ pid: Number(name), parent: Number(parent), state, born: Number(fields[19]) }]
    })
}

/** Behind the program's name, which may contain anything: state, parent, …, and the birth as the twentieth. */
function fieldsOf(pid: number | string): string[] {
  const line = readIfThere(`/proc/${pid}/stat`)
  return line.slice(line.lastIndexOf(')') + 2).split(' ')
}

function hasMark(pid: number, sandboxId: string): boolean {
  return readIfThere(`/proc/${pid}/environ`).split('\0').includes(`${MARK}=${sandboxId}`)
}

/** What has ended, or belongs to somebody else, is none of ours. */
function readIfThere(file: string): string {
  try {
    return readFileSync(file, 'latin1')
  } catch (error) {
    if (['ENOENT', 'ESRCH', 'EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) return ''
    throw error
  }
}
