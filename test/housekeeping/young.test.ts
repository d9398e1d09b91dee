import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import type { Backend, Pausing } from '../../src/backends/backend.ts'
import { describeWorld } from '../support/describe-world.ts'
import { type Housekeeper, housekeeper } from '../support/housekeeper.ts'
import type { World } from '../support/world.ts'
import { forget } from './setup.ts'

/** More than one look into the table finds. */
const MANY = 501

/** Sandboxes that sleep, each on a checkpoint that is due before any that a test makes. */
async function sleepers({ db, place }: World, name: string): Promise<void> {
  await sql`
    with given as materialized (
      select sandman.make_id('sbx', now()) as id, sandman.make_id('ckpt', now()) as checkpoint_id, ${name} || '-' || n as ref
      from generate_series(1, ${MANY}::int) as n
    ), sandbox as (
      insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, provider_ref, checkpoint_id,
        created_at, last_active_at)
      select id, ${place.fleet}, 'test', true, true, 'suspended', now(), ref, checkpoint_id, now(), now()
      from given returning *
    ), checkpoint as (
      insert into sandman.checkpoints (id, sandbox_id, kind, status, provider_ref, created_at, verified_at, verify_at)
      select checkpoint_id, id, 'pause', 'ready', provider_ref, now(), now(), now() from sandbox
    )
    insert into sandman.events (sandbox_id, at, type, to_state, fence, detail)
    select id, now(), 'adopted', state, 0, jsonb_build_object('checkpoint_id', checkpoint_id) from sandbox`.execute(db)
}

function changed({ deps }: Housekeeper, change: (backend: Backend) => Partial<Backend>): void {
  const backends = deps.backends as Map<string, Backend>
  const backend = backends.get('test') as Backend
  backends.set('test', { ...backend, ...change(backend) })
}

describeWorld(
  'a young checkpoint',
  (world) => {
    beforeEach(() => forget(world()))

    /** A snapshot whose upload has failed since. Returns how often it was looked at again. */
    async function failedSnapshot(): Promise<() => number> {
      const { fleet, provider } = world()
      const { id } = await world().running()
      const { operation } = await fleet.snapshot(id, { wait: '30s' })
      const ref = `snapshot-${operation.id}`
      const before = provider.count('verify', ref)
      provider.checkpoints.delete(ref)
      return () => provider.count('verify', ref) - before
    }

    /** Its round is over, and none begins that would look at what sleeps. */
    async function swept(): Promise<Housekeeper> {
      const keeper = housekeeper(world(), { housekeeping: { roundMs: 1e12 } })
      await keeper.sweep()
      return keeper
    }

    const dueOf = async (name: string) =>
      (
        await sql`select from sandman.checkpoints where provider_ref like ${`${name}-%`} and verify_at <= now()`.execute(
          world().db,
        )
      ).rows.length

    test('is looked at behind any number that nobody needs, which are not in the way again', async () => {
      const keeper = await swept()
      await sleepers(world(), 'unneeded')
      const looks = await failedSnapshot()
      // As on the local backend: what sleeps is woken without its checkpoint.
      changed(keeper, ({ pausing }) => ({ pausing: { ...(pausing as Pausing), needsCheckpoint: false } }))
      keeper.advance(120_000)
      await keeper.sweep()
      expect(looks()).toBe(1)
      expect(await dueOf('unneeded')).toBe(0)
    })

    test('is looked at behind any number that is on other machines, where those are looked at', async () => {
      const keeper = await swept()
      await sleepers(world(), 'elsewhere')
      const looks = await failedSnapshot()
      const here = { name: 'the test account', holds: (ref: string) => !ref.startsWith('elsewhere') }
      changed(keeper, ({ lists }) => ({ lists: { ...lists, place: async () => here } }))
      keeper.advance(120_000)
      await keeper.sweep()
      expect(looks()).toBe(1)
      expect(await dueOf('elsewhere')).toBe(MANY)
    })
  },
  { stores: ['postgres'] },
)
