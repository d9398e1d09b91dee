import type { Live } from './records.ts'
import { ApiError } from './replies.ts'

/**
 * Does it as soon as nothing else is done to the sandbox: between the look and the beginning nobody else gets a turn. Who finds that
 * the same is being done waits with whoever does it. Fails when that fails, or what it had to wait for.
 */
export async function whenFree(
  lives: Map<string, Live>,
  id: string,
  state: 'pausing' | 'killing',
  nowMs: () => number,
  work: (live: Live) => Promise<void>,
): Promise<'done' | 'absent'> {
  for (let live = lives.get(id); live; live = lives.get(id)) {
    const free = live
    const { state: now, transition } = live
    if (!transition) {
      await change(free, state, nowMs(), () => work(free))
      return 'done'
    }
    // What is being killed can only be killed; to everybody else it is gone.
    if (now === 'killing' && state !== 'killing') return 'absent'
    // Of a copy that fails nobody is told who only waits for it.
    await (now === 'snapshotting' ? transition.catch(() => {}) : transition)
    if (now === state) return 'done'
  }
  return 'absent'
}

/** Does something to it that everybody else waits for. It runs again afterwards, unless it is not there any more. */
export async function change(
  live: Live,
  state: 'pausing' | 'killing' | 'snapshotting',
  nowMs: number,
  work: () => Promise<void>,
): Promise<void> {
  live.state = state
  if (state !== 'snapshotting') live.endAtMs = Math.min(live.endAtMs, nowMs)
  live.transition = work().finally(() => {
    live.state = 'running'
    live.transition = undefined
  })
  await live.transition
}

export function isChanging({ id, state }: Live): ApiError {
  const what = { running: 'running', pausing: 'paused', killing: 'killed', snapshotting: 'snapshotted' }[state]
  return new ApiError(409, `Sandbox "${id}" is being ${what}`)
}
