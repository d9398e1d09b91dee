import { SandmanError } from './errors.ts'

/**
 * Waits for `work` at most `ms`. What is late is not cancelled (the signal tells it to stop, if it listens), but nobody waits
 * for it any longer, and its late failure is not an unhandled one.
 */
export async function withDeadline<T>(ms: number, what: string, work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const late = new AbortController()
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_resolve, reject) => {
    timer = setTimeout(() => {
      const error = new SandmanError('deadline_exceeded', `${what} did not answer within ${ms} ms`, { details: { ms } })
      late.abort(error)
      reject(error)
    }, ms)
  })
  try {
    const working = work(late.signal)
    working.catch(() => {})
    return await Promise.race([working, deadline])
  } finally {
    clearTimeout(timer)
  }
}
