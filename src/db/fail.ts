import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import type { Failure } from '../sandbox/failures.ts'
import { UNSETTLED_MS } from './bell-times.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { GivingUp } from './schema.ts'
import type { Attempt } from './take.ts'

/**
 * Writes down that an operation is given up, before anything is undone: a call that does may still arrive when a later attempt is at
 * work, and so none may go on with what this one was about to end, or say that what it was about to wake sleeps. False when a newer
 * attempt, or the end, has overtaken this one.
 */
export async function recordGivingUp(
  db: Db,
  { attempt, failure }: { attempt: Attempt; failure: GivingUp },
): Promise<boolean> {
  const { rows } = await sql`
    /* record_giving_up */ with sandbox as (
      select operation_id from sandman.sandboxes
      where operation_id = ${attempt.operationId} and fence = ${attempt.fence} and fleet = ${attempt.fleet}
      for update
    )
    update sandman.operations set giving_up = ${JSON.stringify(failure)}::jsonb
    from sandbox where operations.id = sandbox.operation_id
    returning operations.id`.execute(db)
  return rows.length > 0
}

/**
 * Writes down that an attempt has failed and the operation goes on: why, and whether something at the provider may be
 * different now. False when a newer attempt, or the end, has overtaken this one.
 */
export async function recordFailure(
  db: Db,
  { attempt, failure, acted, clock }: { attempt: Attempt; failure: Failure; acted: boolean; clock: Clock },
): Promise<boolean> {
  const { rows } = await sql`
    /* record_failure */ with sandbox as (
      update sandman.sandboxes set ring_at = ${dbNow(clock)} + ${interval(UNSETTLED_MS)}
      where operation_id = ${attempt.operationId} and fence = ${attempt.fence} and fleet = ${attempt.fleet}
      returning operation_id
    )
    update sandman.operations
    set failures = failures + 1, last_error = ${JSON.stringify(failure)}::jsonb, acted = acted or ${acted}
    from sandbox where operations.id = sandbox.operation_id
    returning operations.id`.execute(db)
  return rows.length > 0
}
