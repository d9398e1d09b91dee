import type pg from 'pg'
import { ID_PREFIXES } from '../src/sandbox/ids.ts'
import { moveBetween } from '../src/sandbox/states.ts'
import { FIRST_INCARNATION } from './noop-backend.ts'
import type { MeasuredKind } from './subjects/order.ts'

/** Where each is asked for, and where a sandbox is while it is worked on. */
const WAY = {
  pause: ['running', 'pausing'],
  resume: ['suspended', 'resuming'],
} as const satisfies Record<MeasuredKind, unknown>

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

/**
 * What a request for each of them would have written down, by one statement for all: when only the work is measured, the asking
 * must not take longer than it. Nobody rings for them meanwhile but who measures. Returns the operations.
 */
export async function makeRequested(
  pool: pg.Pool,
  { kind, sandboxIds }: { kind: MeasuredKind; sandboxIds: readonly string[] },
): Promise<string[]> {
  const [from, to] = WAY[kind]
  const { rows } = await pool.query<{ id: string }>(
    `with operation as (
       insert into sandman.operations (id, sandbox_id, kind, options, status, created_at, started_at)
       select sandman.make_id($2, now()), id, $3, '{}', 'active', now(), now()
       from sandman.sandboxes where id = any ($1) and state = $4
       returning *
     ), moved as (
       update sandman.sandboxes set state = $5, state_changed_at = now(), operation_id = operation.id,
         ring_at = now() + interval '1 hour', tail_id = operation.id, tail_fingerprint = operation.fingerprint
       from operation where sandboxes.id = operation.sandbox_id
       returning sandboxes.*
     ), told as (
       insert into sandman.events (sandbox_id, at, type, from_state, to_state, operation_id, fence)
       select id, now(), $6, $4, state, operation_id, fence from moved
     )
     select id from operation`,
    [sandboxIds, ID_PREFIXES.operation, kind, from, to, moveBetween(from, to)],
  )
  if (rows.length !== sandboxIds.length) throw new Error(`${kind} was asked for ${rows.length} of ${sandboxIds.length}`)
  return rows.map(({ id }) => id)
}
