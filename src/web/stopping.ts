import type { MiddlewareHandler } from 'hono'
import type { WebEnv } from './routes.ts'

/**
 * When this process stops, streams end in order, as if there were no more to say: whoever reads one asks the next process, from
 * where it was. The source of each is cancelled.
 */
export function endStreams(stopping: AbortSignal): MiddlewareHandler<WebEnv> {
  return async (c, next) => {
    await next()
    const { body } = c.res
    if (!body || !c.res.headers.get('content-type')?.startsWith('text/event-stream')) return
    c.res = new Response(untilAborted(body, stopping), c.res)
  }
}

function untilAborted(source: ReadableStream<Uint8Array>, signal: AbortSignal): ReadableStream<Uint8Array> {
  const reader = source.getReader()
  // A read that is under way is answered by the cancel, with the end.
  const stop = () => void reader.cancel(signal.reason).catch(() => {})
  signal.addEventListener('abort', stop, { once: true })
  if (signal.aborted) stop()
  return new ReadableStream({
    async pull(controller) {
      const { done, value } = await reader.read()
      if (!done) return controller.enqueue(value)
      signal.removeEventListener('abort', stop)
      controller.close()
    },
    async cancel(reason) {
      signal.removeEventListener('abort', stop)
      await reader.cancel(reason)
    },
  })
}
