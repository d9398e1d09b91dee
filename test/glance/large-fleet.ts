import { fillInBulk } from '../support/bulk.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

export const ROWS = 100_000
export const fleet = 'large'
/** Of everything else, enough that reading all of it would be noticed. */
const SOME = 20_000

/** The nth oldest. */
export function idOf(nth: number): string {
  return `sbx_${nth.toString(16).padStart(12, '0')}${'0'.repeat(14)}`
}

/**
 * A fleet after years: half of it gone, most of the rest asleep; metadata of which some is on every second sandbox and some on
 * three; failures, findings, trends, and a neighbour with sandboxes of its own.
 */
export async function createLargeFleet(): Promise<TestDatabase> {
  const database = await createDatabase()
  const client = await database.pool.connect()
  try {
    await fillInBulk(client, ['sandboxes', 'operations'], async () => {
      await client.query('alter table sandman.tags drop constraint tags_pkey')
      for (const statement of STATEMENTS) await client.query(statement)
      await client.query('alter table sandman.tags add primary key (fleet, key, value, sandbox_id)')
    })
    await client.query('vacuum sandman.sandboxes, sandman.tags')
    await client.query('analyze')
  } finally {
    client.release()
  }
  return database
}

const ID = `'sbx_' || lpad(to_hex(n), 12, '0') || repeat('0', 14)`

/** Of a hundred: 50 gone, 44 suspended, 5 running, and of a thousand one that is killed. */
const STATEMENTS = [
  `insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, gone_reason, gone_at, suspended_at,
     provider_ref, checkpoint_id, operation_id, tail_id, tail_fingerprint, ring_at, created_at, last_active_at, expires_at, metadata)
   select ${ID}, case when n % 10 = 9 then 'neighbour' else '${fleet}' end, backend, true, true, state,
     now() - make_interval(mins => n % 1000), case when state = 'gone' then 'killed' end, case when state = 'gone' then now() end,
     case when state = 'suspended' then now() end, 'vm-' || n, case when state = 'suspended' then 'ckpt_' || n end, operation,
     operation, case when operation is not null then '' end, case when operation is not null then now() end,
     now() - interval '30 days', now(), case when state = 'running' then now() + make_interval(mins => n % 60) end,
     jsonb_build_object('team', 'team-' || n % 2, 'app', n % 1000, 'odd', n % 2 = 1)
       || case when n % ${ROWS / 4} = 0 then '{"pinned": true}'::jsonb else '{}' end
   from generate_series(0, ${ROWS - 1}) as n, lateral (select case when n % 1000 = 2 then 'rare' when n % 3 = 0 then 'e2b' else 'docker' end as backend,
     case when n % 1000 = 500 then 'killing' when n % 100 < 50 then 'gone' when n % 100 < 94 then 'suspended' else 'running' end as state) as a,
     lateral (select case when state = 'killing' then 'op_' || n end as operation) as b`,
  `insert into sandman.tags (fleet, key, value, sandbox_id)
   select fleet, tags.key, tags.value, id from sandman.sandboxes, sandman.tags_of(backend, metadata) as tags`,
  `insert into sandman.operations (id, sandbox_id, kind, status, outcome, error, created_at, started_at, settled_at, attempt, fence)
   select 'op_' || n, ${ID}, case when n % 1000 = 500 then 'destroy' else 'resume' end, status, case status when 'succeeded' then 'done' end,
     case status when 'failed' then jsonb_build_object('error_type', 'sandbox_unreachable', 'message', 'It did not wake.', 'retryable', true) end,
     now() - interval '1 day', now() - make_interval(mins => n % 1000), case when status <> 'active' then now() - make_interval(secs => n) end, 1, 1
   from generate_series(0, ${ROWS - 1}) as n, lateral (select case when n % 1000 = 500 then 'active' when n % 50 = 1 then 'failed' else 'succeeded' end as status) as a
   where n < ${SOME} or status = 'active'`,
  `insert into sandman.checkpoints (id, fleet, sandbox_id, kind, status, provider_ref, created_at, verified_at)
   select checkpoint_id, fleet, id, 'pause', 'ready', checkpoint_id, created_at, created_at from sandman.sandboxes
   where checkpoint_id is not null and id < '${idOf(SOME)}'`,
  `insert into sandman.findings (fleet, backend, kind, ref, place, sandbox_id, looks, first_seen_at, look_at, acted_at)
   select '${fleet}', 'e2b', kind, case n % 4 when 1 then 'ckpt_' else 'vm-' end || n, 'here', ${ID}, '[{"saw": "nothing"}, {"saw": "nothing again"}]', now() - make_interval(secs => n),
     case when n < 400 then now() end, case when n >= 400 then now() - make_interval(mins => n) end
   from generate_series(0, 9999) as n,
     lateral (select (array['instance_missing', 'checkpoint_missing', 'instance_unowned', 'checkpoint_unowned'])[1 + n % 4] as kind) as a`,
  // Two days of trends, of sixteen numbers.
  `insert into sandman.tallies (fleet, at, name, labels, value)
   select '${fleet}', date_bin('5 minutes', now(), 'epoch') - make_interval(mins => 5 * n), name, labels, 1
   from generate_series(0, 575) as n, (
     select 'sandman_operations_total' as name, jsonb_build_object('kind', kind, 'backend', 'e2b', 'outcome', outcome, 'error_type', 'none') as labels
     from unnest(array['resume', 'pause', 'kill']) as kind, unnest(array['done', 'already_done', 'respawned']) as outcome
     union all select 'sandman_operations_total', '{"kind": "resume", "backend": "e2b", "outcome": "failed", "error_type": "sandbox_unreachable"}'
     union all select 'sandman_operation_duration_seconds_bucket', jsonb_build_object('kind', 'resume', 'backend', 'e2b', 'le', le)
     from unnest(array['0.5', '1', '2.5', '5', '10', '+Inf']) as le) as counted`,
]
