import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import type { Kind } from '../sandbox/judge.ts'
import { UNHEARD_MS } from './bell-times.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'

/**
 * Operations that have waited too long for a worker: their ring was not heard, or whoever took them is gone. Each is given
 * to one caller, who rings for it; if that is not heard either, it comes up again.
 */
export async function claimUnheard(
  db: Db,
  { fleet, max, clock }: { fleet: string; max: number; clock: Clock },
): Promise<{ operationId: string; kind: Kind }[]> {
  const { rows } = await sql<{ operationId: string; kind: Kind }>`
    /* claim_unheard */ with due as (
      select id from sandman.sandboxes
      where fleet = ${fleet} and ring_at <= ${dbNow(clock)}
      order by ring_at limit ${max}
      for update skip locked
    ), claimed as (
      update sandman.sandboxes set ring_at = ${dbNow(clock)} + ${interval(UNHEARD_MS)}
      from due where sandboxes.id = due.id
      returning sandboxes.operation_id
    )
    select operations.id as "operationId", operations.kind
    from claimed join sandman.operations on operations.id = claimed.operation_id`.execute(db)
  return rows
}

/** Operations that nobody has worked on for so long that whoever should is not there. A pause that waits may wait. */
export async function findOverdue(
  db: Db,
  {
    fleet,
    backend,
    olderThanMs,
    max,
    clock,
  }: { fleet: string; backend: string; olderThanMs: number; max: number; clock: Clock },
): Promise<{ operationId: string; kind: Kind }[]> {
  const before = sql`${dbNow(clock)} - ${interval(olderThanMs)}`
  const { rows } = await sql<{ operationId: string; kind: Kind }>`
    /* find_overdue */ select operations.id as "operationId", operations.kind
    from sandman.sandboxes join sandman.operations on operations.id = sandboxes.operation_id
    where sandboxes.fleet = ${fleet} and sandboxes.ring_at is not null and backend = ${backend}
      and sandboxes.state_changed_at <= ${before} and coalesce(taken_at, started_at) <= ${before}
      and not (open_executions > 0 and coalesce(operations.options ->> 'if_busy' = 'wait', false))
    order by sandboxes.state_changed_at limit ${max}`.execute(db)
  return rows
}
