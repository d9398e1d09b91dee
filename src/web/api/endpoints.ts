import { VERSION } from '../../version.ts'
import { IndexBody } from './answers.ts'
import { defineEndpoint, type Endpoint } from './endpoint.ts'
import { executionEndpoints } from './executions.ts'
import { operationEndpoints } from './operations.ts'
import { sandboxEndpoints } from './sandboxes.ts'
import { sweepEndpoints } from './sweep.ts'

const index = defineEndpoint({
  method: 'GET',
  path: '/v1',
  scope: 'read',
  tag: 'About',
  name: 'about',
  summary: 'Which fleet this is, and where everything else is',
  answers: { 200: IndexBody },
  handle: async (fleet) => ({
    status: 200,
    body: {
      name: 'sandman',
      version: VERSION,
      fleet: fleet.name,
      // Relative, because nobody here knows where all of this is mounted.
      links: {
        sandboxes: 'v1/sandboxes',
        executions: 'v1/executions',
        openapi: 'openapi.json',
        reference: 'reference',
        health: 'healthz',
        readiness: 'readyz',
        queues: 'queues',
        console: './',
      },
    },
  }),
})

/** Everything that programs can ask for. The routes, the document and the reference are made from this list, and from nothing else. */
export const ENDPOINTS: readonly Endpoint[] = [
  ...sandboxEndpoints,
  ...operationEndpoints,
  ...executionEndpoints,
  ...sweepEndpoints,
  index,
]
