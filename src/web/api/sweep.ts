import { z } from 'zod'
import { SweepRequest } from '../../fleet/requests.ts'
import { sweepView } from '../../wire/views.ts'
import { SweepReportBody } from './answers.ts'
import { defineEndpoint, type Endpoint } from './endpoint.ts'
import { bodyPart } from './parts.ts'
import { queryReader } from './query.ts'
import { reader } from './request-schema.ts'

/** Who says nothing is not kept for as long as the library would keep them: proxies lose their patience within a minute. */
const WAIT_MS = 20_000

export const sweepEndpoints: Endpoint[] = [
  defineEndpoint({
    method: 'POST',
    path: '/v1/sweep',
    // Also for a dry run: every worker lists all that its providers have, which no operator of single sandboxes should set off.
    scope: 'admin',
    tag: 'Housekeeping',
    name: 'sweep',
    summary: 'Compare everything with the providers now, and report what is not as it should be',
    description: 'With `dry_run` nothing is done about it. What was not swept within `wait` is named as unanswered.',
    query: queryReader(z.strictObject({ wait: SweepRequest.shape.wait.unwrap().default(WAIT_MS) })),
    body: reader(bodyPart(SweepRequest)),
    answers: { 200: SweepReportBody },
    handle: async (fleet, { query, body, signal }) => ({
      status: 200,
      body: sweepView(await fleet.sweep({ ...body, ...query, signal })),
    }),
  }),
]
