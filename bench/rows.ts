import type pg from 'pg'
import { FIRST_INCARNATION } from './noop-backend.ts'

/** Sandboxes that run, as rows, without anybody who has made them. */
export async function makeRunning(
  pool: pg.Pool,
  { fleet, count }: { fleet: string; count: number },
): Promise<string[]> {
  const { rows } = await pool.query<{ id: string }>(
    `with sandbox as (
       insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, provider_ref,
         incarnation, created_at, last_active_at)
       select made.id, $1, 'noop', true, true, 'running', now(), made.id, $3, now(), now()
       from (select sandman.make_id('sbx', now()) as id from generate_series(1, $2::int)) as made
       returning *
     ), told as (
       insert into sandman.events (sandbox_id, at, type, to_state, fence)
       select id, now(), 'adopted', state, fence from sandbox
     )
     select id from sandbox`,
    [fleet, count, FIRST_INCARNATION],
  )
  return rows.map(({ id }) => id)
}
