import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import type { SandboxRow } from './schema.ts'

/** A sandbox that runs, and whose provider will end or pause it by itself before long, or has already. */
export type Leased = Pick<SandboxRow, 'id' | 'created_at' | 'hard_ttl_ms' | 'can_pause'> & {
  ref: string
  incarnation: string
  endsAt: Date
}

/** Gives those whose time at their provider ends soon to one caller, for a while, whatever comes of it. */
export async function claimLeases(
  db: Db,
  asked: { fleet: string; backend: string; withinMs: number; max: number; retryMs: number; clock: Clock },
): Promise<Leased[]> {
  const now = dbNow(asked.clock)
  const { rows } = await sql<Leased>`
    with due as (
      select id from sandman.sandboxes
      where fleet = ${asked.fleet} and backend = ${asked.backend} and state = 'running'
        and expires_at <= ${now} + ${interval(asked.withinMs)} and (renew_after is null or renew_after <= ${now})
      order by expires_at limit ${asked.max}
      for update skip locked
    )
    update sandman.sandboxes set renew_after = ${now} + ${interval(asked.retryMs)}
    from due where sandboxes.id = due.id
    returning sandboxes.id, created_at, hard_ttl_ms, can_pause, provider_ref as ref, incarnation, expires_at as "endsAt"`.execute(
    db,
  )
  return rows
}

/** As the provider shows it, unless the row has moved on since it was read. */
export async function recordLease(
  db: Db,
  { id, incarnation }: Pick<Leased, 'id' | 'incarnation'>,
  seen: { incarnation: string; endsAt: Date },
): Promise<void> {
  await sql`
    update sandman.sandboxes set expires_at = ${seen.endsAt}, incarnation = ${seen.incarnation}
    where id = ${id} and state = 'running' and incarnation = ${incarnation}`.execute(db)
}
