import { z } from 'zod'
import type { Answer, Fleet } from '../../fleet/fleet.ts'
import {
  AdoptRequest,
  CheckpointsRequest,
  EventsRequest,
  ExecutionsRequest,
  ListRequest,
  OperationsRequest,
  PauseRequest,
  ResumeRequest,
  SnapshotRequest,
  SpawnRequest,
  TeardownRequest,
  WaitRequest,
} from '../../fleet/requests.ts'
import { operationView, sandboxView, whyView } from '../../wire/views.ts'
import {
  AnswerBody,
  CheckpointBody,
  EventBody,
  ExecutionBody,
  OperationBody,
  pageOf,
  SandboxBody,
  WhyBody,
} from './answers.ts'
import { defineEndpoint, type Endpoint } from './endpoint.ts'
import { bodyPart, waitPart, without } from './parts.ts'
import { queryReader } from './query.ts'
import { replyToOperation, replyWithPage } from './replies.ts'
import { type Reader, reader } from './request-schema.ts'

const tag = 'Sandboxes'
const answers = { 200: AnswerBody, 202: AnswerBody }

const spawnReader = reader(bodyPart(SpawnRequest))
const { ref, ...adopting } = bodyPart(AdoptRequest).shape
const adoptReader = reader(
  z.strictObject({
    ...adopting,
    adopt: ref,
    state: z.enum(['running', 'suspended']).optional(),
  }),
)
type Making = ReturnType<typeof spawnReader.read> | ReturnType<typeof adoptReader.read>

/** One that is made, or one that is taken over: which of them is said by `adopt`. */
const makingReader: Reader<Making> = {
  schema: z.union([
    spawnReader.schema.meta({ title: 'Body that makes a sandbox' }),
    adoptReader.schema.meta({ title: 'Body that takes one over' }),
  ]),
  read: (given) =>
    typeof given === 'object' && given !== null && 'adopt' in given ? adoptReader.read(given) : spawnReader.read(given),
}

const making = defineEndpoint({
  method: 'POST',
  path: '/v1/sandboxes',
  scope: 'operate',
  tag,
  name: 'spawn',
  summary: 'Make a sandbox, or take over one that exists',
  description: 'With `adopt`, an instance that exists at its provider is looked at, and ends where it is.',
  query: queryReader(waitPart(SpawnRequest)),
  body: makingReader,
  isKeyed: true,
  answers,
  mayFail: true,
  async handle(fleet, { c, query, body, key, signal }) {
    const asking = { ...query, ...key, signal }
    if (!('adopt' in body)) return replyToOperation(c, await fleet.spawn({ ...body, ...asking }))
    const { adopt, state: _thought, ...rest } = body
    return replyToOperation(c, await fleet.adopt({ ...rest, ref: adopt, ...asking }))
  },
})

const listing = defineEndpoint({
  method: 'GET',
  path: '/v1/sandboxes',
  scope: 'read',
  tag,
  name: 'listSandboxes',
  summary: 'List sandboxes, the newest first',
  query: queryReader(ListRequest),
  answers: { 200: pageOf(SandboxBody) },
  handle: async (fleet, { c, query }) => replyWithPage(c, await fleet.list(query), sandboxView),
})

const reading = defineEndpoint({
  method: 'GET',
  path: '/v1/sandboxes/:id',
  scope: 'read',
  tag,
  name: 'getSandbox',
  summary: 'A sandbox as it is now',
  answers: { 200: SandboxBody },
  handle: async (fleet, { id }) => ({ status: 200, body: sandboxView(await fleet.get(id)) }),
})

const events = defineEndpoint({
  method: 'GET',
  path: '/v1/sandboxes/:id/events',
  scope: 'read',
  tag,
  name: 'listEvents',
  summary: "A sandbox's history, in the order in which it happened",
  query: queryReader(EventsRequest),
  answers: { 200: pageOf(EventBody) },
  handle: async (fleet, { c, id, query }) => replyWithPage(c, await fleet.events(id, query)),
})

const operations = defineEndpoint({
  method: 'GET',
  path: '/v1/sandboxes/:id/operations',
  scope: 'read',
  tag,
  name: 'listOperations',
  summary: 'What was asked of a sandbox, the newest first',
  query: queryReader(OperationsRequest),
  answers: { 200: pageOf(OperationBody) },
  handle: async (fleet, { c, id, query }) => replyWithPage(c, await fleet.operations(id, query), operationView),
})

const checkpoints = defineEndpoint({
  method: 'GET',
  path: '/v1/sandboxes/:id/checkpoints',
  scope: 'read',
  tag,
  name: 'listCheckpoints',
  summary: 'All that a sandbox could ever be resumed or spawned from, the newest first',
  query: queryReader(CheckpointsRequest),
  answers: { 200: pageOf(CheckpointBody) },
  handle: async (fleet, { c, id, query }) => replyWithPage(c, await fleet.checkpoints(id, query)),
})

const executions = defineEndpoint({
  method: 'GET',
  path: '/v1/sandboxes/:id/executions',
  scope: 'read',
  tag,
  name: 'listExecutionsOfSandbox',
  summary: 'What was run in a sandbox, the newest first',
  query: queryReader(z.strictObject(without(ExecutionsRequest.shape, ['sandboxId']))),
  answers: { 200: pageOf(ExecutionBody) },
  async handle(fleet, { c, id, query }) {
    const sandbox = await fleet.get(id) // or an unknown sandbox would seem to have none
    return replyWithPage(c, await fleet.executions({ ...query, sandboxId: sandbox.id }))
  },
})

const why = defineEndpoint({
  method: 'GET',
  path: '/v1/sandboxes/:id/why',
  scope: 'read',
  tag,
  name: 'why',
  summary: 'How a sandbox got where it is, in sentences',
  answers: { 200: WhyBody },
  handle: async (fleet, { id }) => ({ status: 200, body: whyView(await fleet.why(id)) }),
})

const touching = defineEndpoint({
  method: 'POST',
  path: '/v1/sandboxes/:id/touch',
  scope: 'operate',
  tag,
  name: 'touch',
  summary: 'Say that a sandbox is in use',
  description: 'Its idle limit is counted anew. No other limit is, and one that sleeps is not woken.',
  answers: { 200: SandboxBody },
  handle: async (fleet, { id }) => ({ status: 200, body: sandboxView(await fleet.touch(id)) }),
})

type Verb = 'pause' | 'resume' | 'snapshot' | 'kill' | 'destroy'
type Asking = Parameters<Fleet['kill']>[1]

function verb<Body>(
  name: Verb,
  summary: string,
  body: Reader<Body>,
  ask: (fleet: Fleet, id: string, request: Body & Asking) => Promise<Answer>,
): Endpoint {
  return defineEndpoint({
    method: 'POST',
    path: `/v1/sandboxes/:id/${name}`,
    scope: 'operate',
    tag,
    name,
    summary,
    query: queryReader(waitPart(WaitRequest)),
    body,
    isKeyed: true,
    answers,
    mayFail: true,
    handle: async (fleet, { c, id, query, body, key, signal }) =>
      replyToOperation(c, await ask(fleet, id, { ...body, ...query, ...key, signal })),
  })
}

export const sandboxEndpoints: Endpoint[] = [
  making,
  listing,
  reading,
  verb('pause', 'Put a sandbox to sleep', reader(bodyPart(PauseRequest)), (fleet, id, asked) => fleet.pause(id, asked)),
  verb('resume', 'Wake a sandbox', reader(bodyPart(ResumeRequest)), (fleet, id, asked) => fleet.resume(id, asked)),
  verb('snapshot', 'Copy a sandbox while it keeps running', reader(bodyPart(SnapshotRequest)), (fleet, id, asked) =>
    fleet.snapshot(id, asked),
  ),
  verb('kill', 'Free what a sandbox computes with', reader(bodyPart(TeardownRequest)), (fleet, id, asked) =>
    fleet.kill(id, asked),
  ),
  verb(
    'destroy',
    'End a sandbox for ever, with its checkpoints',
    reader(bodyPart(TeardownRequest)),
    (fleet, id, asked) => fleet.destroy(id, asked),
  ),
  touching,
  why,
  events,
  operations,
  checkpoints,
  executions,
]
