import type pg from 'pg'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { findYoung } from '../../src/db/checkpoints.ts'
import { claimDue, findDue } from '../../src/db/due.ts'
import { dueFindings } from '../../src/db/findings.ts'
import { claimLeases } from '../../src/db/leases.ts'
import { pruneEvents, pruneKeys, pruneOutput } from '../../src/db/prune.ts'
import { claimUnheard, findOverdue } from '../../src/db/ring-due.ts'
import { listBackends } from '../../src/db/sandboxes.ts'
import type { SweepRow } from '../../src/db/schema.ts'
import { claimUnfollowed, findPastDeadline } from '../../src/db/streams.ts'
import { compareRows, findUnownedCheckpoints, findUnownedInstances, type Hold } from '../../src/db/sweeps.ts'
import { LIMIT_NAMES } from '../../src/sandbox/limits.ts'
import { fillInBulk } from '../support/bulk.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { explaining } from '../support/explain.ts'

const DAY_MS = 86_400_000
/** Suspended, of which a hundred are due by each limit, and a tenth as many that run. */
const ROWS = 200_000
const DUE = 100
/** Of everything else, enough that reading all of it would be noticed. */
const SOME = 20_000
/** Of a backend that is hardly used. */
const FEW = 10
const fleet = 'large'

/**
 * What a tick costs has to grow with what is due. The plans are those of the statements as they are, on a table of the size that
 * the promise is about.
 */
describe(`with ${ROWS} sandboxes`, () => {
  let database: TestDatabase
  let explained: ReturnType<typeof explaining>
  beforeAll(async () => {
    database = await createDatabase()
    await generate(database)
    explained = explaining(database.url)
  }, 120_000)
  afterAll(async () => {
    await explained?.close()
    await database?.drop()
  })
  beforeEach(() => {
    explained.costs.length = 0
  })

  /** Some have nothing to do with rows that come back; what they did was explained all the same. */
  async function cost(work: (db: TestDatabase['db']) => Promise<unknown>) {
    await work(explained.db).catch((error: unknown) => {
      if (explained.costs.length === 0) throw error
    })
    return explained.costs.at(-1)
  }

  const limits = {
    idleMs: 30 * DAY_MS,
    hardMs: 1_000 * DAY_MS,
    retentionMs: 300 * DAY_MS,
    ifUnsupported: 'kill' as const,
  }

  test.each(LIMIT_NAMES)(
    'the reaper reads hundreds of rows for a hundred that are due by their %s limit',
    async (limit) => {
      const asked = { fleet, limit, limits, max: DUE, clock }
      const found = await findDue(database.db, asked)
      expect(found).toHaveLength(DUE)
      const claimed = await cost((db) => claimDue(db, { ...asked, retryMs: DAY_MS }))
      expect(claimed?.scannedWhole).toEqual([])
      expect(claimed?.rows).toBeGreaterThanOrEqual(DUE)
      expect(claimed?.rows).toBeLessThan(10 * DUE)
    },
  )

  test('the reaper reads hundreds of rows for a hundred whose time at their provider is nearly over', async () => {
    const asked = { fleet, backend: 'test', withinMs: 30 * 60_000, max: DUE, retryMs: DAY_MS, clock }
    const claimed = await cost((db) => claimLeases(db, asked))
    expect(claimed?.scannedWhole).toEqual([])
    expect(claimed?.rows).toBeGreaterThanOrEqual(DUE)
    expect(claimed?.rows).toBeLessThan(10 * DUE)
    const none = await cost((db) => claimLeases(db, { ...asked, fleet: 'small' }))
    expect(none?.rows).toBeLessThan(10)
  })

  test.each(LIMIT_NAMES)('it reads next to nothing when none is due by its %s limit', async (limit) => {
    const long = { idleMs: 9_000 * DAY_MS, hardMs: 9_000 * DAY_MS, retentionMs: 9_000 * DAY_MS }
    const spent = await cost((db) => claimDue(db, { fleet: 'small', limit, limits: long, max: DUE, clock, retryMs: 1 }))
    expect(spent).toEqual({ scannedWhole: [], rows: 0 })
  })

  const hold: Hold = { fleet, backend: 'test', place: 'here', takenBy: 'me', holdMs: 1, clock }
  /** A backend with next to nothing, beside two that have all the rest. */
  const few = { ...hold, backend: 'few' }
  const sweep = { round: 2, cursor: null, began_at: new Date() } as SweepRow
  const named = Array.from({ length: 100 }, (_, index) => ({ ref: `vm-${index}`, sandboxId: idOf(index) }))
  const old = { fleet, olderThanMs: 90 * DAY_MS, max: 100, clock }

  test.each<[string, (db: TestDatabase['db']) => Promise<unknown>, number]>([
    ['operations that nobody has heard of', (db) => claimUnheard(db, { fleet, max: 100, clock }), 0],
    [
      'operations past their deadline, beside those of another backend',
      (db) => findOverdue(db, { ...hold, olderThanMs: 1_000, max: 20 }),
      0,
    ],
    ['executions that nobody follows', (db) => claimUnfollowed(db, { fleet, max: 100, clock }), 0],
    ['executions past theirs', (db) => findPastDeadline(db, { fleet, backend: 'test', byMs: 1, max: 100, clock }), 0],
    ['findings that are due', (db) => dueFindings(db, { ...hold, max: 100 }), 0],
    ['young checkpoints', (db) => findYoung(db, { ...hold, max: 50 }), 10 * DUE],
    [
      'a page of sandboxes beside the lists',
      (db) => compareRows(db, hold, sweep, { state: 'suspended', checkpoints: true, max: 100 }),
      800,
    ],
    ['whose a page of instances are', (db) => findUnownedInstances(db, hold, named), 1_000],
    [
      'whose a page of checkpoints are',
      (db) => findUnownedCheckpoints(db, hold, named, { retentionMs: 1, remainsMs: 1 }),
      2_000,
    ],
    ['old history', (db) => pruneEvents(db, old), 1_500],
    ['old output', (db) => pruneOutput(db, old), 10],
    ['old keys', (db) => pruneKeys(db, old), 10],
    [
      'a round of a backend that has few, beside those that have many',
      (db) => compareRows(db, few, sweep, { state: 'suspended', checkpoints: true, max: 1_000 }),
      3 * FEW,
    ],
    ['young checkpoints of it', (db) => findYoung(db, { ...few, max: 50 }), 4 * FEW],
    ['which backends there are', (db) => listBackends(db, fleet), 20],
  ])('looking for %s costs what there is of it', async (_what, work, most) => {
    const spent = await cost(work)
    expect(spent?.scannedWhole.filter((table) => LARGE.includes(table))).toEqual([])
    expect(spent?.rows).toBeLessThanOrEqual(most)
  })
})

const LARGE = ['sandboxes', 'checkpoints', 'operations', 'events', 'sightings']

function idOf(index: number): string {
  return `sbx_${index.toString(16).padStart(26, '0')}`
}

/** Rows as they are after years. */
async function generate({ pool }: TestDatabase): Promise<void> {
  const client = await pool.connect()
  try {
    await fillInBulk(client, ['sandboxes', 'operations', 'events'], () => fill(client))
    await client.query('analyze')
  } finally {
    client.release()
  }
}

async function fill(client: pg.PoolClient): Promise<void> {
  await client.query(`
      insert into sandman.checkpoints (id, fleet, sandbox_id, kind, status, provider_ref, created_at, verified_at, verify_at, verify_by)
      select 'ckpt_' || lpad(to_hex(n), 26, '0'), '${fleet}', 'sbx_' || lpad(to_hex(n), 26, '0'), 'pause', 'ready', 'ckpt-' || n,
        now() - interval '1 day', now() - interval '1 day', case when n < ${DUE} then now() end, case n % 2 when 0 then 'test' else 'other' end
      from generate_series(0, ${SOME} - 1) as n`)
  await client.query(`
      insert into sandman.operations (id, sandbox_id, kind, status, outcome, checkpoint_id, created_at, settled_at)
      select 'op_' || lpad(to_hex(n), 26, '0'), 'sbx_' || lpad(to_hex(n), 26, '0'), 'pause', 'succeeded', 'done',
        'ckpt_' || lpad(to_hex(n), 26, '0'), now() - interval '1 day', now() - interval '1 day'
      from generate_series(0, ${SOME} - 1) as n`)
  await client.query(`
      insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, suspended_at, provider_ref,
        checkpoint_id, created_at, last_active_at, hard_ttl_ms, retention_ms)
      select 'sbx_' || lpad(to_hex(n), 26, '0'), '${fleet}', case n % 2 when 0 then 'test' else 'other' end, true, true, 'suspended', slept, slept,
        'vm-' || n, 'ckpt_' || lpad(to_hex(n), 26, '0'), now() - interval '400 days', now() - interval '300 days',
        case n % 3 when 0 then case when n < 150 then 1000 else 1000 * 86400000::bigint end end,
        case n % 3 when 1 then case when n < 150 then 1000 else 1000 * 86400000::bigint end end
      from generate_series(0, ${ROWS} - 1) as n,
        lateral (select now() - case when n between 150 and 299 then interval '301 days' else interval '299 days' end as slept) as times`)
  await client.query(`
      insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, provider_ref, created_at,
        last_active_at, expires_at, idle_ttl_ms)
      select 'sbx_' || lpad(to_hex(n), 26, '0'), '${fleet}', 'test', n % 7 > 0, true, 'running', now() - interval '29 days', 'vm-' || n,
        now() - interval '29 days' - case when n % 400 = 0 then interval '1000 days' else interval '0' end,
        now() - case when n % 50 = 0 then interval '31 days' else interval '29 days' end,
        now() + case when n % 200 = 0 then interval '10 minutes' else interval '50 minutes' end, case when n % 2 = 0 then 300 * 86400000::bigint end
      from generate_series(${ROWS}, ${ROWS + ROWS / 10} - 1) as n`)
  await client.query(`
      update sandman.sandboxes set idle_ttl_ms = case when can_pause then 1000 end where fleet = '${fleet}' and state = 'running'
        and last_active_at < now() - interval '30 days'`)
  await client.query(`
      insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, suspended_at, provider_ref,
        checkpoint_id, created_at, last_active_at)
      select 'sbx_' || lpad(to_hex(n), 26, '0'), '${fleet}', 'few', true, true, 'suspended', now() - interval '1 day', now(), 'vm-' || n,
        'ckpt_' || lpad(to_hex(n), 26, '0'), now(), now()
      from generate_series(${2 * ROWS}, ${2 * ROWS + FEW - 1}) as n`)
  await client.query(`
      insert into sandman.checkpoints (id, fleet, sandbox_id, kind, status, provider_ref, created_at, verified_at, verify_at, verify_by)
      select checkpoint_id, fleet, id, 'pause', 'ready', 'ckpt-of-' || provider_ref, now(), now(), now(), backend
      from sandman.sandboxes where backend = 'few'`)
  // At a provider that does not answer: nobody has settled them for long.
  await client.query(`
      insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, provider_ref, operation_id,
        tail_id, tail_fingerprint, ring_at, created_at, last_active_at)
      select 'sbx_' || lpad(to_hex(n), 26, '0'), '${fleet}', 'other', true, true, 'pausing', now() - interval '1 day', 'vm-' || n,
        'op_' || lpad(to_hex(n), 26, '0'), 'op_' || lpad(to_hex(n), 26, '0'), 'pause', now() + interval '1 hour', now(), now()
      from generate_series(${3 * ROWS}, ${3 * ROWS + SOME - 1}) as n`)
  await client.query(`
      insert into sandman.events (sandbox_id, at, type, to_state, fence)
      select id, state_changed_at, 'adopted', state, 0 from sandman.sandboxes where fleet = '${fleet}' limit ${SOME}`)
  await client.query(`
      insert into sandman.sightings (fleet, backend, place, kind, ref, sandbox_id, round)
      select fleet, backend, 'here', 'instance', provider_ref, id, 2 from sandman.sandboxes where id < '${idOf(SOME)}'
      union all
      select fleet, 'test', 'here', 'checkpoint', provider_ref, sandbox_id, 2 from sandman.checkpoints`)
}
