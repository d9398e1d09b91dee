import { setTimeout as sleep } from 'node:timers/promises'
import { carries, listProcesses, lookAtProcesses, type Seen } from './process-table.ts'

const STANDSTILL_MS_MAX = 10_000
const DEATH_MS_MAX = 30_000
const LOOK_AGAIN_MS = 2

/**
 * What a virtual machine, or a container, would do for us. The processes of one are those that carry its name in this variable of
 * the environment that they were started with, wherever they have gone since, and all that descend from those. One that has
 * thrown the mark away and lost its parents is not found.
 */
export function machinesMarkedBy(variable: string) {
  function membersAmong(seen: Seen[], names: readonly string[]): Seen[] {
    const marks = names.map((name) => `${variable}=${name}`)
    const isMarked = (one: Seen) => marks.some((mark) => carries(one, mark))
    const found = new Set(seen.filter((one) => one.pid !== process.pid && isMarked(one)).map(({ pid }) => pid))
    for (let before = -1; before !== found.size; ) {
      before = found.size
      for (const { pid, parent } of seen) if (found.has(parent)) found.add(pid)
    }
    return seen.filter(({ pid }) => found.has(pid))
  }

  const findProcesses = (...names: string[]) => membersAmong(listProcesses(), names)

  /** Stops all of them, and returns when twice in a row the same ones were seen to stand still. */
  async function freeze(...names: string[]): Promise<void> {
    let before: string | undefined
    const until = Date.now() + STANDSTILL_MS_MAX
    while (Date.now() < until) {
      const all = findProcesses(...names)
      for (const { pid, state } of all) if (!isStopped(state)) signal(pid, 'SIGSTOP')
      const moving = movingAmong(all)
      const now = moving.length === 0 ? all.map(({ pid }) => pid).join(' ') : undefined
      if (now !== undefined && now === before) return
      before = now
      if (moving.length > 0) await sleep(LOOK_AGAIN_MS)
    }
    throw new Error(`The processes of ${names.join(', ')} cannot be stopped.`)
  }

  function thaw(...names: string[]): void {
    for (const { pid } of findProcesses(...names)) signal(pid, 'SIGCONT')
  }

  /**
   * Kills those that there are, and tells how many there were. Stopped before they are killed, so that none of them sees another one
   * die and goes on.
   */
  async function killOnce(...names: string[]): Promise<number> {
    const found = membersAmong(await lookAtProcesses(), names)
    for (const { pid } of found) signal(pid, 'SIGSTOP')
    for (const { pid } of found) signal(pid, 'SIGKILL')
    return found.length
  }

  async function killAll(...names: string[]): Promise<void> {
    const until = Date.now() + DEATH_MS_MAX
    while (Date.now() < until) {
      if ((await killOnce(...names)) === 0) return
      await sleep(LOOK_AGAIN_MS)
    }
    throw new Error(`The processes of ${names.join(', ')} do not end.`)
  }

  return { membersAmong, findProcesses, freeze, thaw, killOnce, killAll }
}

const isStopped = (state: string) => 'Tt'.includes(state)

/** Those that do not stand still. One in the middle of a vfork waits for its child, which was stopped first: it does not move either. */
export function movingAmong(all: Seen[]): Seen[] {
  const parentsOfStopped = new Set(all.filter(({ state }) => isStopped(state)).map(({ parent }) => parent))
  return all.filter(({ pid, state }) => !isStopped(state) && !(state === 'D' && parentsOfStopped.has(pid)))
}

/** One that has ended meanwhile needs no signal. */
export function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
