import type { z } from 'zod'
import type { BackendAbilities } from '../backends/backend.ts'
import type { Event } from '../events.ts'
import type { OpenQueue } from '../queues/bullmq/producer.ts'
import type { Change } from './changes.ts'
import type { Health } from './health.ts'
import { openFleet } from './open-fleet.ts'
import type { OutputPiece } from './output.ts'
import type { Overview } from './overview.ts'
import type {
  AdoptRequest,
  ChangesRequest,
  CheckpointsRequest,
  EventsRequest,
  ExecuteRequest,
  ExecutionsRequest,
  ListRequest,
  OperationsRequest,
  OutputRequest,
  PauseRequest,
  ResumeRequest,
  SnapshotRequest,
  SpawnRequest,
  SweepRequest,
  TeardownRequest,
  Ttl,
  WaitRequest,
} from './requests.ts'
import type { SweepReport } from './sweep.ts'
import type { Checkpoint, Execution, Operation, Page, Sandbox, SandboxEvent } from './views.ts'
import type { Why } from './why.ts'

export type FleetOptions = {
  /** Postgres that holds the truth, migrated by `sandman migrate`. */
  databaseUrl: string
  /** Redis for the queues, if the workers have one too. Without it, the queues live in Postgres. */
  redisUrl?: string
  /** Name of the deployment. Defaults to `default`. */
  fleet?: string
  /** Backends of one's own that the workers have. Those that Sandman brings are known. */
  backends?: readonly BackendAbilities[]
  /** Connections to Postgres at most, besides one that listens once somebody has waited. Defaults to 10. */
  connectionsMax?: number
  /** The fleet's limits as its workers have them (`SANDMAN_TTL`). Only for what a sweep reports: the workers act by their own. */
  ttl?: Given<typeof Ttl>
  /** Told of what happens behind the calls, such as a queue that is away. What it throws changes nothing, and is a warning of the process. */
  onEvent?: (event: Event) => void
}

/** What became of a request, and where its sandbox is now. */
export type Answer = { operation: Operation; sandbox: Sandbox }

/** What became of an execution, and where its sandbox is now. */
export type ExecutionAnswer = { execution: Execution; sandbox: Sandbox }

type Given<Schema extends z.ZodType> = z.input<Schema>

/**
 * What a web app asks of its sandboxes. Each verb resolves as soon as the request is accepted, or, with `wait`, when it has
 * settled or that time is over; `operation.status` tells. How an operation ends is a value and never thrown: switch on
 * `operation.error.errorType`. What is thrown is a `SandmanError`, or the reason of the caller's own signal.
 */
export type Fleet = {
  readonly name: string
  /** What the backends can do that a sandbox may be made on. Which of them there is a worker for is not known here. */
  readonly backends: readonly BackendAbilities[]
  /** Makes a sandbox. */
  spawn(request: Given<typeof SpawnRequest>): Promise<Answer>
  /** Takes over an instance that exists at its provider. It is looked at, and ends where it is: running, suspended or gone. */
  adopt(request: Given<typeof AdoptRequest>): Promise<Answer>
  pause(sandboxId: string, request?: Given<typeof PauseRequest>): Promise<Answer>
  resume(sandboxId: string, request?: Given<typeof ResumeRequest>): Promise<Answer>
  /** Copies a sandbox while it keeps running. `operation.checkpointId` can be spawned from. */
  snapshot(sandboxId: string, request?: Given<typeof SnapshotRequest>): Promise<Answer>
  /** Frees what it computes with. One that is suspended has nothing left to free, and stays so. */
  kill(sandboxId: string, request?: Given<typeof TeardownRequest>): Promise<Answer>
  /** Ends it for ever, with all that it could be resumed from. */
  destroy(sandboxId: string, request?: Given<typeof TeardownRequest>): Promise<Answer>
  /** An operation as it is now, or once it has settled. */
  operation(operationId: string, request?: Given<typeof WaitRequest>): Promise<Answer>
  get(sandboxId: string): Promise<Sandbox>
  /** Says that a sandbox is in use: its idle limit is counted anew. No other limit is, and one that sleeps is not woken. */
  touch(sandboxId: string): Promise<Sandbox>
  /** How a sandbox got where it is, in sentences: who asked for what, what came of it, and what was seen at its provider. */
  why(sandboxId: string): Promise<Why>
  /**
   * Asks the workers to compare everything with the providers now, and reports what is not as it should be, with all that was
   * seen, and which sandboxes are past a limit. With `dryRun` nothing is done about it.
   */
  sweep(request?: Given<typeof SweepRequest>): Promise<SweepReport>
  /**
   * Runs a command in a sandbox, or follows the agent that it was made with. One that sleeps is woken first, and with
   * `ifLost: 'respawn'` one that is lost is replaced. With `wait`, resolves when the execution has ended or that time is over.
   */
  execute(sandboxId: string, request?: Given<typeof ExecuteRequest>): Promise<ExecutionAnswer>
  /** An execution as it is now, or once it has ended. */
  execution(executionId: string, request?: Given<typeof WaitRequest>): Promise<ExecutionAnswer>
  /** The newest first, of one sandbox or of all. */
  executions(request?: Given<typeof ExecutionsRequest>): Promise<Page<Execution>>
  /** Stops the agent; its execution ends when that was seen to have ended. One that has ended stays as it is. */
  cancel(executionId: string, request?: Given<typeof WaitRequest>): Promise<ExecutionAnswer>
  /** All that it has printed from a byte on, and then what it prints, until it has ended. */
  output(executionId: string, request?: Given<typeof OutputRequest>): AsyncIterable<OutputPiece>
  /** The newest first. */
  list(request?: Given<typeof ListRequest>): Promise<Page<Sandbox>>
  /** A sandbox's history, in the order in which it happened. */
  events(sandboxId: string, request?: Given<typeof EventsRequest>): Promise<Page<SandboxEvent>>
  /** What was asked of a sandbox, the newest first. */
  operations(sandboxId: string, request?: Given<typeof OperationsRequest>): Promise<Page<Operation>>
  /** All that a sandbox could ever be resumed or spawned from, the newest first. */
  checkpoints(sandboxId: string, request?: Given<typeof CheckpointsRequest>): Promise<Page<Checkpoint>>
  /**
   * Which of these sandboxes have changed, whenever some have, and with `newest` also that a new one was made. The
   * first time, none has: from then on nothing is missed, and what was before is to be read. All watchers of a process share one
   * statement a second.
   */
  changes(request: Given<typeof ChangesRequest>): AsyncIterable<Change>
  /** The fleet at a glance: what there is, what is stuck, at risk or failing, and how it has gone lately. A few seconds old at most. */
  overview(): Promise<Overview>
  /** What the whole fleet has counted and what there is now, as Prometheus reads it. */
  metrics(): Promise<string>
  /** Whether everything answers that a request needs. Never thrown: what is away is in it. */
  health(): Promise<Health>
  /** The queues, as BullMQ's own objects: for Bull Board, or for a look of one's own. */
  queues(): Promise<OpenQueue[]>
  /** From now on nobody waits: all who do are answered with what there is. For a process that is about to stop. */
  stopWaiting(): void
  /** Ends all waiting and closes every connection. What was accepted is carried out all the same. */
  close(): Promise<void>
}

/** The side of Sandman that asks. It opens connections when it is first used, works on nothing, and needs no worker here. */
export function createFleet(options: FleetOptions): Fleet {
  return openFleet(options)
}
