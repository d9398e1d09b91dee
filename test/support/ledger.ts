import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect } from 'vitest'
import type { Clock } from '../../src/clock.ts'
import type { Ending } from '../../src/db/ending.ts'
import { type ExecutionRequest, requestExecution } from '../../src/db/executions.ts'
import { findViolations } from '../../src/db/invariants.ts'
import type { Db } from '../../src/db/pool.ts'
import { type Requested, request, requestSpawn, type SandboxRequest, type SpawnRequest } from '../../src/db/request.ts'
import type { ExecutionRow, OperationRow, SandboxRow } from '../../src/db/schema.ts'
import { type Settled, type Stale, settle } from '../../src/db/settle.ts'
import { type Attempt, type NotTaken, type Taken, take } from '../../src/db/take.ts'
import { failure } from '../../src/sandbox/failures.ts'
import type { Kind, Options } from '../../src/sandbox/judge.ts'
import type { SettledState } from '../../src/sandbox/states.ts'
import { stoppedClock } from './clock.ts'
import { createDatabase, type TestDatabase } from './database.ts'

/** What a provider may do with an operation: it works, it fails and changes nothing, or the sandbox turns out to be lost. */
export const PROVIDER_RESULTS = ['works', 'fails', 'loses'] as const
export type ProviderResult = (typeof PROVIDER_RESULTS)[number]

/** Asks and works as apps and workers will, against the real database. */
export type Ledger = ReturnType<typeof ledgerOn>

export function ledgerOn(db: Db, { fleet, clock }: { fleet: string; clock: Clock }) {
  const spawn = (asked: Partial<SpawnRequest> = {}): Promise<Requested> =>
    requestSpawn(db, { fleet, backend: 'test', canPause: true, canSnapshot: true, clock, ...asked })

  const ask = (sandboxId: string, kind: Kind, asked: Partial<SandboxRequest> & { options?: Options } = {}) =>
    request(db, { fleet, sandboxId, kind, clock, ...asked })

  const begin = async (operationId: string, worker = 'worker'): Promise<Taken> => {
    const taken = await take(db, { fleet, operationId, worker, clock })
    if (!taken.attempt) throw new Error(`${operationId} was not taken: ${taken.because}`)
    return taken
  }

  const end = async (attempt: Attempt, ending: Ending): Promise<Settled> => {
    const settled = await settle(db, { attempt, ending, clock })
    if (!settled.settled) throw new Error(`${attempt.operationId} was not settled: stale`)
    return settled
  }

  return {
    db,
    fleet,
    clock,
    spawn,
    ask,
    begin,
    end,
    tryBegin: (operationId: string): Promise<Taken | NotTaken> =>
      take(db, { fleet, operationId, worker: 'worker', clock }),
    tryEnd: (attempt: Attempt, ending: Ending): Promise<Settled | Stale> => settle(db, { attempt, ending, clock }),

    execute: async (sandboxId: string, asked: Partial<ExecutionRequest> = {}): Promise<ExecutionRow> => {
      const bounds = { hardDeadlineMs: 3_600_000, outputBytesMax: 1_000_000 }
      return (await requestExecution(db, { fleet, sandboxId, clock, ...bounds, ...asked })).execution
    },

    /** A whole operation by one worker. */
    async perform(operationId: string, result: ProviderResult = 'works'): Promise<Settled> {
      const taken = await begin(operationId)
      return end(taken.attempt, endingOf(taken, result))
    },

    /** A sandbox that rests in this state, by the way that leads there. */
    async at(state: SettledState, asked: Partial<SpawnRequest> = {}): Promise<SandboxRow> {
      const spawned = await spawn(asked)
      let { sandbox } = await this.perform(spawned.operation.id)
      const kind = { running: undefined, suspended: 'pause', gone: 'kill' } as const
      const wanted = kind[state]
      if (wanted) ({ sandbox } = await this.perform((await ask(sandbox.id, wanted)).operation.id))
      expect(sandbox.state).toBe(state)
      return sandbox
    },

    /** Works through a line until nothing is in flight. */
    async drain(sandboxId: string): Promise<void> {
      for (let operation = await this.active(sandboxId); operation; operation = await this.active(sandboxId)) {
        await this.perform(operation.id)
      }
    },

    active: (sandboxId: string): Promise<OperationRow | undefined> =>
      db
        .selectFrom('operations')
        .selectAll()
        .where('sandbox_id', '=', sandboxId)
        .where('status', '=', 'active')
        .executeTakeFirst(),

    sandbox: (id: string): Promise<SandboxRow> =>
      db.selectFrom('sandboxes').selectAll().where('id', '=', id).executeTakeFirstOrThrow(),

    operations: (sandboxId: string): Promise<OperationRow[]> =>
      db.selectFrom('operations').selectAll().where('sandbox_id', '=', sandboxId).orderBy('place').execute(),

    async statusOf(id: string): Promise<Pick<OperationRow, 'status' | 'outcome'>> {
      return db.selectFrom('operations').select(['status', 'outcome']).where('id', '=', id).executeTakeFirstOrThrow()
    },

    async expectInvariants(): Promise<void> {
      expect(await findViolations(db, { fleet })).toEqual([])
    },
  }
}

export type LedgerTest = { database: TestDatabase; ledger: Ledger; clock: ReturnType<typeof stoppedClock> }

/** A database for the file, and for each test a fleet of its own, a stopped clock, and a look at the invariants at the end. */
export function useLedger(give: (given: LedgerTest) => void): void {
  let database: TestDatabase
  beforeAll(async () => {
    database = await createDatabase()
  })
  beforeEach(() => {
    const clock = stoppedClock('2026-03-01T12:00:00Z')
    const ledger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    give({ database, ledger, clock })
    return () => ledger.expectInvariants()
  })
  afterAll(() => database.drop())
}

/** What a worker settles with after the provider did this to an operation. */
export function endingOf({ operation, sandbox }: Taken, result: ProviderResult): Ending {
  const wasSuspended = sandbox.checkpoint_id !== null
  if (result === 'fails' && sandbox.state !== 'provisioning') {
    return {
      status: 'failed',
      error: failure('sandbox_unreachable', 'the provider does not answer'),
      rest: { state: wasSuspended ? 'suspended' : 'running' },
    }
  }
  if (result === 'works') return success(operation, sandbox)
  const reason =
    sandbox.state === 'provisioning' ? 'spawn_failed' : wasSuspended ? 'checkpoint_missing' : 'instance_lost'
  return {
    status: 'failed',
    error: failure(wasSuspended ? 'checkpoint_missing' : 'internal', 'it is not there any more'),
    rest: { state: 'gone', reason },
    ...(wasSuspended && { checkpoints: { which: 'own', are: 'missing' } as const }),
  }
}

function success(operation: OperationRow, sandbox: SandboxRow): Ending {
  const done = { status: 'succeeded', outcome: 'done' } as const
  const life = { providerRef: `instance of ${operation.id}`, incarnation: `${operation.id}/${operation.attempt}` }
  switch (sandbox.state) {
    case 'provisioning':
      return {
        status: 'succeeded',
        outcome: operation.kind === 'resume' ? 'respawned' : 'done',
        rest: { state: 'running', ...life },
      }
    case 'pausing':
      return {
        ...done,
        rest: { state: 'suspended', checkpoint: { kind: 'pause', providerRef: `pause ${operation.id}` } },
      }
    case 'resuming':
      return { ...done, rest: { state: 'running', ...life }, checkpoints: { which: 'own', are: 'deleted' } }
    case 'snapshotting':
      return {
        ...done,
        rest: { state: 'running', snapshot: { kind: 'snapshot', providerRef: `snapshot ${operation.id}` } },
      }
    default:
      return operation.kind === 'destroy'
        ? { ...done, rest: { state: 'gone', reason: 'destroyed' }, checkpoints: { which: 'all', are: 'deleted' } }
        : { ...done, rest: { state: 'gone', reason: operation.kind === 'pause' ? 'pause_unsupported' : 'killed' } }
  }
}
