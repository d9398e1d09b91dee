import { WaitRequest } from '../../fleet/requests.ts'
import { answerView } from '../../wire/views.ts'
import { AnswerBody } from './answers.ts'
import { defineEndpoint, type Endpoint } from './endpoint.ts'
import { waitPart } from './parts.ts'
import { queryReader } from './query.ts'

export const operationEndpoints: Endpoint[] = [
  defineEndpoint({
    method: 'GET',
    path: '/v1/operations/:id',
    scope: 'read',
    tag: 'Operations',
    name: 'getOperation',
    summary: 'An operation as it is now, or once it has settled',
    description: 'Also one that failed is read with 200: `status` and `error` say how it ended.',
    query: queryReader(waitPart(WaitRequest)),
    answers: { 200: AnswerBody },
    handle: async (fleet, { id, query, signal }) => ({
      status: 200,
      body: answerView(await fleet.operation(id, { ...query, signal })),
    }),
  }),
]
