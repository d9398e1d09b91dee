import { type RawBuilder, sql } from 'kysely'
import pg from 'pg'
import type { Clock } from '../clock.ts'
import type { Kind } from '../sandbox/judge.ts'
import { UNSETTLED_MS } from './bell-times.ts'
import { fromJson, type JoinedSandbox, type Json, sandboxFromJson } from './json-row.ts'
import { dbNow, interval } from './now.ts'
import { findOperations } from './operations.ts'
import type { Db } from './pool.ts'
import type { CheckpointRow, OperationRow, SandboxRow } from './schema.ts'
import { statement } from './statement.ts'

/** The right to write: one attempt at one operation. The next attempt takes it away. */
export type Attempt = { fleet: string; operationId: string; fence: number }

export type Taken = {
  attempt: Attempt
  operation: OperationRow
  sandbox: SandboxRow
  /** What the sandbox can be resumed from, when it is suspended or on its way from there. */
  checkpoint: CheckpointRow | undefined
}

/**
 * Why there is nothing to take. A waiting one is rung for again when its turn comes, and a pause that waits for executions
 * when the last of them has ended. `not_mine`: of another backend.
 */
export type NotTaken =
  | { attempt: undefined; because: 'unknown' | 'waiting' | 'ended' | 'busy' | 'other_kind' }
  | { attempt: undefined; because: 'not_mine'; since: Date }

/** Who takes: which worker, and what it can work on. */
export type Taking = {
  fleet: string
  worker: string
  /** Those that this worker can talk to. Left out: all there are. */
  backends?: string[] | undefined
  /** Those that this worker's queue is for. Left out: any. A ring in the wrong queue must not be followed. */
  kinds?: readonly Kind[] | undefined
  clock: Clock
}

/**
 * Begins an attempt at an operation: from now on only its fence may write. Whoever had taken it before was presumed dead,
 * and finds out when it settles.
 */
export async function take(db: Db, asked: Taking & { operationId: string }): Promise<Taken | NotTaken> {
  const { operationId, fleet, backends, kinds } = asked
  const [taken] = await takeAny(db, asked, [operationId])
  if (taken) return taken
  const [found] = await findOperations(db, { fleet, ids: [operationId] })
  if (!found) return { attempt: undefined, because: 'unknown' }
  const { operation, sandbox } = found
  if (operation.status !== 'active')
    return { attempt: undefined, because: operation.status === 'waiting' ? 'waiting' : 'ended' }
  if (backends && !backends.includes(sandbox.backend))
    return { attempt: undefined, because: 'not_mine', since: operation.started_at ?? operation.created_at }
  if (kinds && !kinds.includes(operation.kind)) return { attempt: undefined, because: 'other_kind' }
  if (operation.options.if_busy === 'wait' && sandbox.open_executions > 0)
    return { attempt: undefined, because: 'busy' }
  // Its turn came between the two looks. It comes once, so this does not go on.
  return take(db, asked)
}

/**
 * The same for several at once, by one statement that waits for nobody: a sandbox that somebody else has locked is left out, as
 * is whatever cannot be taken. Those are for `take`, which waits for the lock of each alone, or says why not.
 */
export async function takeFree(db: Db, asked: Taking, operationIds: readonly string[]): Promise<Map<string, Taken>> {
  const isFree = sql`and sandboxes.id in (
          select id from sandman.sandboxes where operation_id = any (${operationIds}::text[]) and fleet = ${asked.fleet} for update skip locked)`
  try {
    const taken = await takeAny(db, asked, operationIds, isFree)
    return new Map(taken.map((each) => [each.operation.id, each]))
  } catch (error) {
    // Refused by the server, and so undone: for the sake of one of them, perhaps, which each finds out alone.
    if (error instanceof pg.DatabaseError && operationIds.length > 1) return new Map()
    throw error
  }
}

const ANYWAY = sql``

async function takeAny(
  db: Db,
  { fleet, worker, clock, ...only }: Taking,
  operationIds: readonly string[],
  andOnlyIf: RawBuilder<unknown> = ANYWAY,
): Promise<Taken[]> {
  const { backends = null, kinds = null } = only
  const { rows } = await statement<JoinedSandbox & { operation: Json }>`
    /* take */ with sandbox as (
      update sandman.sandboxes set fence = fence + 1, ring_at = ${dbNow(clock)} + ${interval(UNSETTLED_MS)}
      where operation_id = any (${operationIds}::text[]) and fleet = ${fleet}
        and (${backends}::text[] is null or backend = any (${backends}::text[]))
        and (${kinds}::text[] is null
          or (select kind from sandman.operations where operations.id = sandboxes.operation_id) = any (${kinds}::text[]))
        -- A pause that waits does so until what was asked for before it has ended, or until something is asked for after it.
        and (open_executions = 0 or waiting > 0 or not exists (
          select from sandman.operations as own join sandman.executions as other
            on other.sandbox_id = own.sandbox_id and other.ring_at is not null
          where own.id = sandboxes.operation_id and own.options ->> 'if_busy' = 'wait'
          having bool_and(other.status = 'running' or other.created_at <= own.created_at)))
        ${andOnlyIf}
      returning *
    ), operation as (
      update sandman.operations
      set attempt = attempt + 1, fence = sandbox.fence, taken_at = ${dbNow(clock)}, taken_by = ${worker}
      from sandbox where operations.id = sandbox.operation_id
      returning operations.*
    )
    select to_jsonb(operation) as operation, to_jsonb(sandbox) as sandbox, to_jsonb(checkpoints) as checkpoint
    from operation join sandbox on sandbox.operation_id = operation.id
    left join sandman.checkpoints on checkpoints.id = sandbox.checkpoint_id`.execute(db)
  return rows.map((row) => {
    const operation = fromJson<OperationRow>(row.operation)
    const found = sandboxFromJson(row)
    return { attempt: { fleet, operationId: operation.id, fence: found.sandbox.fence }, operation, ...found }
  })
}

/** Whether an attempt may still write: nobody has taken over, and its operation has not settled. */
export async function isCurrent(db: Db, { fleet, operationId, fence }: Attempt): Promise<boolean> {
  const { rows } = await statement`
    /* is_current */ select id from sandman.sandboxes
    where operation_id = ${operationId} and fence = ${fence} and fleet = ${fleet}`.execute(db)
  return rows.length > 0
}
