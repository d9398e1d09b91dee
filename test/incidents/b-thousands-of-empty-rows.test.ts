import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'
import type { World } from '../support/world.ts'

/** There were 2,206 of them. So few are as many batches for the sweeper, and as many ticks. */
const EMPTY = 221
const HEALTHY = 10
const PER_TICK = 50
const BATCH = 100

/** Rows as another system has left them: suspended, each with a checkpoint that was never there. */
async function importRows({ db, place }: World, count: number): Promise<void> {
  await sql`
    with given as materialized (
      select sandman.make_id('sbx', now() - interval '1 day') as id, sandman.make_id('ckpt', now() - interval '1 day') as checkpoint_id, n
      from generate_series(1, ${count}::int) as n
    ), sandbox as (
      insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, provider_ref, checkpoint_id,
        agent_thread_id, created_at, last_active_at)
      select id, ${place.fleet}, 'test', true, true, 'suspended', now() - interval '1 day', 'imported-' || n, checkpoint_id, 'thread-' || n,
        now() - interval '1 day', now() - interval '1 day'
      from given returning *
    ), checkpoint as (
      insert into sandman.checkpoints (id, sandbox_id, kind, status, provider_ref, created_at, verified_at)
      select checkpoint_id, id, 'pause', 'ready', 'of-' || provider_ref, created_at, created_at from sandbox
    )
    insert into sandman.events (sandbox_id, at, type, to_state, fence, detail)
    select id, created_at, 'adopted', state, 0, jsonb_build_object('checkpoint_id', checkpoint_id) from sandbox`.execute(
    db,
  )
}

describeIncident(
  'B: hundreds of rows are suspended with nothing behind them',
  (world) => {
    test('the sweeper finds and ends them, with reasons, as fast as it may; healthy ones beside them are not touched', async () => {
      const { fleet, provider, db, place } = world()
      await importRows(world(), EMPTY)
      const healthy = await Promise.all(
        Array.from({ length: HEALTHY }, (_, n) => (n % 2 ? world().suspended() : world().running())),
      )
      const keeper = housekeeper(world(), { destroyMax: PER_TICK, housekeeping: { compareBatch: BATCH } })
      await keeper.sweep('test', { asked: true })
      expect(await keeper.state()).toMatchObject({ instances: HEALTHY, stopped_at: null, failing_since: null })
      expect(await keeper.findings()).toHaveLength(EMPTY)
      expect(keeper.events.count('sweep.acted')).toBe(0)

      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      const ticks: number[] = []
      for (let acted = 0; acted < EMPTY; acted = keeper.events.count('sweep.acted')) {
        await keeper.sweep()
        ticks.push(keeper.events.count('sweep.acted') - acted)
      }
      expect(Math.max(...ticks)).toBeLessThanOrEqual(PER_TICK)
      const count = async (where: ReturnType<typeof sql>) =>
        Number(
          (
            await sql<{
              n: number
            }>`select count(*) as n from sandman.sandboxes where fleet = ${place.fleet} and ${where}`.execute(db)
          ).rows[0]?.n,
        )
      await expect
        .poll(() => count(sql`state = 'gone' and gone_reason = 'expired' and provider_ref like 'imported-%'`), {
          timeout: 120_000,
        })
        .toBe(EMPTY)
      expect(await count(sql`state <> 'gone'`)).toBe(HEALTHY)
      for (const { id, state } of healthy) expect((await fleet.get(id)).state).toBe(state)
      expect(provider.count('end')).toBe(0)
      const { items } = await fleet.list({ state: 'gone', limit: 1 })
      expect((await fleet.why(items[0]?.id as string)).answer).toMatch(/gone/)
    }, 180_000)
  },
  { stores: ['redis'] },
)
