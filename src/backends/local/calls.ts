import { setTimeout as delay } from 'node:timers/promises'
import { describeError } from '../../errors.ts'
import { answering } from '../answer.ts'
import { BackendError, type Call } from '../backend.ts'

/** What the system says when there is no room, for bytes or for files. */
const FULL = new Set(['ENOSPC', 'EDQUOT'])

/** Not Node's own, which begin with ERR_ and complain about us. */
const SYSTEM_ERROR = /^E(?!RR_)[A-Z0-9]+$/

export const { answer, answerInPieces } = answering((what, error) => {
  const { code = '' } = error as NodeJS.ErrnoException
  if (!SYSTEM_ERROR.test(code)) return undefined
  const type = FULL.has(code) ? 'quota_exceeded' : 'sandbox_unreachable'
  return new BackendError(type, `This machine did not let Sandman ${what}: ${describeError(error)}`, { cause: error })
})

/** Sleeps, or fails with the reason for which the call was given up. */
export async function wait(ms: number, { signal }: Call): Promise<void> {
  await delay(ms, undefined, { signal }).catch(() => {})
  signal.throwIfAborted()
}

/** Looks again and again until it is so; false when it is not within this time. */
export async function within(ms: number, call: Call, isSo: () => Promise<boolean>): Promise<boolean> {
  const until = Date.now() + ms
  for (;;) {
    if (await isSo()) return true
    if (Date.now() > until) return false
    await wait(POLL_MS, call)
  }
}

const POLL_MS = 10

/** For work that nobody gives up, because half of it would be worse than all of it. */
export const UNSTOPPABLE: Call = { signal: new AbortController().signal }
