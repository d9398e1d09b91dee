import { z } from 'zod'
import { invalid } from '../../checked.ts'
import { ExecuteRequest, ExecutionsRequest, OutputRequest, WaitRequest } from '../../fleet/requests.ts'
import { executionAnswerView } from '../../wire/views.ts'
import { ExecutionAnswerBody, ExecutionBody, pageOf } from './answers.ts'
import { defineEndpoint, type Endpoint } from './endpoint.ts'
import { ENCODINGS, streamEvents } from './output.ts'
import { bodyPart, waitPart } from './parts.ts'
import { queryReader } from './query.ts'
import { replyToExecution, replyWithPage } from './replies.ts'
import { reader } from './request-schema.ts'

const tag = 'Executions'

const executing = defineEndpoint({
  method: 'POST',
  path: '/v1/sandboxes/:id/executions',
  scope: 'operate',
  tag,
  name: 'execute',
  summary: 'Run a command in a sandbox, or follow the agent that it was made with',
  description:
    'A sandbox that sleeps is woken first, and with `if_lost` one that is lost is replaced. How the run ends is no error of the request: `status`, `reason` and `exit_code` say it.',
  query: queryReader(waitPart(WaitRequest)),
  body: reader(bodyPart(ExecuteRequest)),
  isKeyed: true,
  answers: { 200: ExecutionAnswerBody, 202: ExecutionAnswerBody },
  mayFail: true,
  handle: async (fleet, { c, id, query, body, key, signal }) =>
    replyToExecution(c, await fleet.execute(id, { ...body, ...query, ...key, signal })),
})

const listing = defineEndpoint({
  method: 'GET',
  path: '/v1/executions',
  scope: 'read',
  tag,
  name: 'listExecutions',
  summary: 'List executions, the newest first',
  query: queryReader(ExecutionsRequest),
  answers: { 200: pageOf(ExecutionBody) },
  handle: async (fleet, { c, query }) => replyWithPage(c, await fleet.executions(query)),
})

const reading = defineEndpoint({
  method: 'GET',
  path: '/v1/executions/:id',
  scope: 'read',
  tag,
  name: 'getExecution',
  summary: 'An execution as it is now, or once it has ended',
  query: queryReader(waitPart(WaitRequest)),
  answers: { 200: ExecutionAnswerBody },
  handle: async (fleet, { id, query, signal }) => ({
    status: 200,
    body: executionAnswerView(await fleet.execution(id, { ...query, signal })),
  }),
})

const cancelling = defineEndpoint({
  method: 'POST',
  path: '/v1/executions/:id/cancel',
  scope: 'operate',
  tag,
  name: 'cancel',
  summary: 'Stop the agent',
  description: 'Its execution ends when that was seen to have ended. One that has ended stays as it is.',
  query: queryReader(waitPart(WaitRequest)),
  answers: { 200: ExecutionAnswerBody, 202: ExecutionAnswerBody },
  handle: async (fleet, { c, id, query, signal }) => replyToExecution(c, await fleet.cancel(id, { ...query, signal })),
})

/** What the last event of a stream is called. A browser that asks for what comes after it is told that there is nothing. */
const END = 'end'

const output = defineEndpoint({
  method: 'GET',
  path: '/v1/executions/:id/output',
  scope: 'read',
  tag,
  name: 'streamOutput',
  summary: 'All that an execution has printed from a byte on, and then what it prints, until it has ended',
  description:
    'A stream of server-sent events. Each has the piece `{ from, to, text }` as its data, or with `encoding=base64` the exact bytes as `{ from, to, base64 }`, and the byte behind it as its id; the last one, `end`, has the execution. What a program prints is not to be trusted: show it as text.',
  query: queryReader(z.strictObject({ from: OutputRequest.shape.from, encoding: z.enum(ENCODINGS).default('text') })),
  headers: [
    {
      name: 'Last-Event-ID',
      description: 'The id of the last event that was seen: goes on behind it, whatever `from` says.',
    },
  ],
  answers: {},
  others: [
    { status: 200, type: 'text/event-stream', description: 'The output, as it is printed.' },
    { status: 204, description: 'The last event was seen already.' },
  ],
  async handle(fleet, { c, id, query, signal }) {
    const { execution } = await fleet.execution(id)
    const seen = c.req.header('last-event-id') ?? ''
    if (seen === END) return c.body(null, 204)
    if (seen !== '' && !/^\d{1,15}$/.test(seen))
      throw invalid([{ field: 'Last-Event-ID', message: 'must be the id of an event of this stream' }])
    const from = seen === '' ? query.from : Number(seen)
    const headers = {
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-store',
      'x-accel-buffering': 'no',
    }
    // Who asks for no more than this reads nothing, and would never be seen to leave.
    if (c.req.method === 'HEAD') return c.body(null, 200, headers)
    const reading = { executionId: execution.id, from, encoding: query.encoding, signal }
    return c.body(streamEvents(fleet, reading), 200, headers)
  },
})

export const executionEndpoints: Endpoint[] = [executing, listing, reading, cancelling, output]
