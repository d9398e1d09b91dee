import type { Answer, ExecutionAnswer } from '../../fleet/fleet.ts'
import type { Page } from '../../fleet/views.ts'
import { answerView, executionAnswerView, operationView } from '../../wire/views.ts'
import { problem } from '../problem.ts'
import type { WebContext } from '../routes.ts'
import { FAILURE_STATUSES } from '../statuses.ts'
import { encode } from './answer-schema.ts'
import { OperationBody } from './answers.ts'
import type { Reply } from './endpoint.ts'

/** 202 while it is carried out, 200 when it has come to its end; and what failed or was refused is a problem. */
export function replyToOperation(c: WebContext, answer: Answer): Reply | Response {
  const { operation } = answer
  if (operation.error) {
    const { errorType } = operation.error
    const told = encode(OperationBody, operationView(operation))
    return problem(c, FAILURE_STATUSES[errorType], { ...operation.error, operation: told })
  }
  const body = answerView(answer)
  if (operation.settledAt !== null) return { status: 200, body }
  return { status: 202, body, headers: { location: upwards(c, `operations/${operation.id}`) } }
}

/** How a run ends is no matter of the request: one that fails is answered as one that succeeds is. */
export function replyToExecution(c: WebContext, answer: ExecutionAnswer): Reply {
  const { execution } = answer
  const body = executionAnswerView(answer)
  if (execution.endedAt !== null) return { status: 200, body }
  return { status: 202, body, headers: { location: upwards(c, `executions/${execution.id}`) } }
}

/** A page with where the next one is, both in it and as a link for clients that follow those. */
export function replyWithPage<Item>(
  c: WebContext,
  { items, nextCursor }: Page<Item>,
  view: (item: Item) => unknown = (item) => item,
): Reply {
  const body = { items: items.map(view), nextCursor }
  if (nextCursor === null) return { status: 200, body }
  const query = new URL(c.req.url).searchParams
  query.set('cursor', nextCursor)
  return { status: 200, body, headers: { link: `<?${query}>; rel="next"` } }
}

/**
 * Something below `/v1`, as seen from the resource that was asked for. Relative, because only the client knows where all of this is
 * mounted: a server in front may have cut off any part of the path.
 */
function upwards(c: WebContext, below: string): string {
  const { pathname } = new URL(c.req.url)
  const levels = pathname.slice(pathname.lastIndexOf('/v1/') + 1).split('/').length - 2
  return `${'../'.repeat(levels)}${below}`
}
