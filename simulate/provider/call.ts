import { BackendError, type BackendErrorType, type Call } from '../../src/backends/backend.ts'
import { requireLife } from '../life.ts'
import type { Cloud } from './cloud.ts'

/** What a provider says, some time or never. */
export type Reply<T> = { with(answer: T): void; failing(type: BackendErrorType, why: string): void }

const REFUSALS = [
  'sandbox_unreachable',
  'sandbox_unreachable',
  'rate_limited',
  'quota_exceeded',
  'provider_unauthorized',
] as const

/**
 * A call on its way to a provider and back. It may be refused, hang before or after it was performed, arrive when nobody waits for it
 * any more, or be performed and not answered. Whoever has asked may be dead by then, which the provider does not know.
 */
export function ask<T>(
  cloud: Cloud,
  { backend, method, about }: { backend: string; method: string; about: string },
  { signal }: Call,
  perform: (reply: Reply<T>) => void,
): Promise<T> {
  const { engine, conduct, random } = cloud
  const life = requireLife()
  const { promise, resolve, reject } = Promise.withResolvers<T>()
  const what = `${method} of ${about} at ${backend}`
  const onAbort = () => reject(signal.reason)
  signal.addEventListener('abort', onAbort, { once: true })
  if (signal.aborted) onAbort()
  const back = (told: string, settle: () => void): void => {
    engine.reach(life, conduct.callMs(), `${what}: ${told}`, () => {
      signal.removeEventListener('abort', onAbort)
      settle()
    })
  }
  const fail = (type: BackendErrorType, why: string) => {
    const error = new BackendError(type, why)
    // Some come as a library has wrapped them.
    back(type, () => reject(random.chance(0.3) ? new Error('the SDK failed', { cause: error }) : error))
  }
  engine.after(conduct.callMs(), `${life.name} asks: ${what}`, () => {
    if ((cloud.outageUntilMs.get(backend) ?? 0) > engine.nowMs && !conduct.isWell) {
      if (random.chance(0.7)) fail('sandbox_unreachable', `${backend} is down`)
      return
    }
    if (conduct.happens('call_refused')) return fail(random.pick(REFUSALS), `${backend} refuses ${method}`)
    if (conduct.happens('call_broken'))
      return back('broken', () => reject(new Error(`something is wrong with ${method}`)))
    const isUnanswered = conduct.happens('call_unanswered')
    const hangs = conduct.happens('call_hangs')
    if (hangs && random.chance(0.4)) return // it was never performed, either
    perform({
      with(answer) {
        if (hangs) return
        if (isUnanswered) fail('sandbox_unreachable', `the answer to ${method} was lost`)
        else back(describe(answer), () => resolve(answer))
      },
      failing: (type, why) => (hangs ? undefined : fail(type, why)),
    })
  })
  return promise
}

function describe(answer: unknown): string {
  return (JSON.stringify(answer) ?? 'done').slice(0, 160)
}
