import type pg from 'pg'
import { fillInBulk } from '../test/support/bulk.ts'
import { FIRST_INCARNATION } from './noop-backend.ts'

export const LARGE = { fleet: 'large', backend: 'noop', place: 'here' } as const

/** One in so many runs; the others sleep. */
const RUNNING_ONE_IN = 10

const TABLES = ['sandboxes', 'checkpoints', 'operations', 'events']

/** A fleet that has grown over the years, in which nothing is due: each sandbox with its history, and a checkpoint if it sleeps. */
export async function makeLargeFleet(pool: pg.Pool, count: number): Promise<void> {
  const client = await pool.connect()
  try {
    await fillInBulk(client, TABLES, () => fill(client, count))
    await client.query('set statement_timeout = 0')
    await client.query('vacuum analyze')
  } finally {
    client.release(true)
  }
}

async function fill(client: pg.PoolClient, count: number): Promise<void> {
  const { fleet, backend, place } = LARGE
  const every = `generate_series(0, ${count} - 1) as n`
  const asleep = `${every} where n % ${RUNNING_ONE_IN} > 0`
  const id = (prefix: string) => `'${prefix}_' || lpad(to_hex(n), 26, '0')`
  await client.query(`
    insert into sandman.checkpoints (id, fleet, sandbox_id, kind, status, provider_ref, created_at, verified_at)
    select ${id('ckpt')}, '${fleet}', ${id('sbx')}, 'pause', 'ready', 'vm-' || n, now() - interval '1 day', now() - interval '1 day'
    from ${asleep}`)
  await client.query(`
    insert into sandman.operations (id, sandbox_id, kind, status, outcome, checkpoint_id, created_at, started_at, settled_at)
    select ${id('op')}, ${id('sbx')}, 'pause', 'succeeded', 'done', ${id('ckpt')}, at, at, at
    from generate_series(0, ${count} - 1) as n, lateral (select now() - interval '1 day' as at) as times where n % ${RUNNING_ONE_IN} > 0`)
  await client.query(`
    insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, suspended_at, provider_ref,
      checkpoint_id, incarnation, created_at, last_active_at, idle_ttl_ms, retention_ms)
    select ${id('sbx')}, '${fleet}', '${backend}', true, true, case when runs then 'running' else 'suspended' end, at,
      case when not runs then at end, 'vm-' || n, case when not runs then ${id('ckpt')} end, '${FIRST_INCARNATION}',
      now() - interval '30 days', at, ${days(300)}, ${days(300)}
    from generate_series(0, ${count} - 1) as n,
      lateral (select n % ${RUNNING_ONE_IN} = 0 as runs, now() - interval '1 day' as at) as which`)
  await client.query(`
    insert into sandman.events (sandbox_id, at, type, to_state, fence)
    select id, state_changed_at, 'adopted', state, 0 from sandman.sandboxes where fleet = '${fleet}'`)
  await client.query(`
    insert into sandman.sweeps (fleet, backend, place, round, phase, began_at, ended_at)
    values ('${fleet}', '${backend}', '${place}', 1, 'done', now() + interval '1 day', now())`)
}

/** So many, which were not before, idle for longer than they may. */
export async function letIdle(pool: pg.Pool, nth: number, due: number): Promise<void> {
  await pool.query(
    `update sandman.sandboxes set idle_ttl_ms = 1000 where id in (
       select 'sbx_' || lpad(to_hex(n * ${RUNNING_ONE_IN}), 26, '0') from generate_series($1::int, $2::int - 1) as n)`,
    [nth * due, (nth + 1) * due],
  )
}

/** Of so many checkpoints, which were not before, it was once seen that they are missing: it is time to look again. */
export async function letBeSuspected(pool: pg.Pool, nth: number, due: number): Promise<void> {
  const { fleet, backend, place } = LARGE
  await pool.query(
    `insert into sandman.findings (fleet, backend, kind, ref, place, sandbox_id, looks, first_seen_at, look_at)
     select fleet, $4, 'checkpoint_missing', provider_ref, $5, sandbox_id,
       '[{"at": "2026-01-01T00:00:00.000Z", "asked": "all checkpoints", "saw": "it is not there"}]', now() - interval '1 hour', now()
     from sandman.checkpoints where fleet = $3 and id in (
       select 'ckpt_' || lpad(to_hex(n * ${RUNNING_ONE_IN} + 1), 26, '0') from generate_series($1::int, $2::int - 1) as n)`,
    [nth * due, (nth + 1) * due, fleet, backend, place],
  )
}

function days(count: number): string {
  return `${count} * 86400000::bigint`
}
