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
