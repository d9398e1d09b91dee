import type { MiddlewareHandler } from 'hono'
import { withDeadline } from '../deadline.ts'
import { parseDurationMs } from '../duration.ts'
import { WAIT_MS_MAX } from '../fleet/requests.ts'
import type { Routes, WebEnv } from './routes.ts'

/** How long a handler may take to begin its answer. Longer than everything it asks has patience itself. */
const ANSWER_MS = 30_000

/** Who is willing to wait is answered that much later. A stream is answered as soon as it begins. */
export function limitTime(routes: Routes, answerMs = ANSWER_MS): MiddlewareHandler<WebEnv> {
  return (c, next) => {
    const waitMs = Math.min(parseDurationMs(c.req.query('wait') ?? '') ?? 0, WAIT_MS_MAX)
    return withDeadline((routes.of(c)?.withinMs ?? answerMs) + waitMs, 'Sandman', () => next())
  }
}
