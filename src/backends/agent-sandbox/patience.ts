import { BackendError } from '../backend.ts'

const LOOK_AGAIN_MS = [50, 1_000] as const

/** Before what is on its way, and of which nobody tells, is looked at once more: soon at first, and then less and less. */
export function lookAgainMs(looks: number): number {
  const [firstMs, mostMs] = LOOK_AGAIN_MS
  return Math.min(firstMs * 2 ** Math.min(looks, 10), mostMs)
}

/** How often a change is tried again that was refused because of another one: its controller writes to it, too. */
const CHANGES_MAX = 20

/** Tries a change again as long as it says `false`: somebody else was faster, and what is there has to be looked at anew. */
export async function despiteOthers<T>(ref: string, change: () => Promise<T | false>): Promise<T> {
  for (let changes = 0; changes < CHANGES_MAX; changes++) {
    const done = await change()
    if (done !== false) return done
  }
  throw new BackendError('sandbox_unreachable', `${ref} is changed by others again and again`)
}
