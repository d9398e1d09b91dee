import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import { type Backend, BackendError } from '../../src/backends/backend.ts'
import { runningClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { ask } from '../../src/fleet/ask.ts'
import type { Sandbox } from '../../src/index.ts'
import { describeWorld } from '../support/describe-world.ts'
import { type Housekeeper, housekeeper } from '../support/housekeeper.ts'
import { forget, lose, others, settled, stray } from './setup.ts'

const HOUR_MS = 3_600_000

/** The same provider, as a worker sees it whose lists come from somewhere else. */
function placedAt({ deps }: Housekeeper, place: Backend['lists']['place']): void {
  const backends = deps.backends as Map<string, Backend>
  const backend = backends.get('test') as Backend
  backends.set('test', { ...backend, lists: { ...backend.lists, place } })
}

describeWorld(
  'the sweeper',
  (world) => {
    beforeEach(() => forget(world()))
    const checkpointOf = ({ checkpoint }: Sandbox) => checkpoint?.providerRef as string

    test('spares the checkpoint of a sandbox that was taken over, and is labelled as another’s', async () => {
      const { provider, fleet, place } = world()
      await others(world())
      const label = { fleet: `${place.fleet}/test`, sandboxId: `sbx_${'0'.repeat(26)}` }
      const { ref } = stray(world(), label.sandboxId, { state: 'suspended', checkpointRef: 'taken-over' })
      provider.checkpoints.set('taken-over', {
        ref: 'taken-over',
        of: ref,
        kind: 'pause',
        condition: 'ready',
        ...label,
      })
      const { sandbox } = await fleet.adopt({ backend: 'test', ref, wait: '30s' })
      expect(sandbox.state).toBe('suspended')
      await housekeeper(world()).sweepTwice()
      expect(provider.checkpoints.has('taken-over')).toBe(true)
      // Once it is awake nobody needs it: it goes, and the row says so, whoever it is labelled with.
      provider.next('discard', { kind: 'status', status: 500 })
      expect((await fleet.resume(sandbox.id, { wait: '30s' })).operation.status).toBe('succeeded')
      await housekeeper(world()).sweepTwice()
      expect(provider.checkpoints.has('taken-over')).toBe(false)
      const row = await world()
        .db.selectFrom('checkpoints')
        .selectAll()
        .where('sandbox_id', '=', sandbox.id)
        .executeTakeFirst()
      expect(row?.status).toBe('deleted')
    })

    test('ends nothing when all checkpoints are said to be missing, and deletes none when they are there again', async () => {
      const { provider, fleet } = world()
      const asleep = await Promise.all(Array.from({ length: 30 }, () => world().suspended()))
      const running = await world().running()
      const { operation } = await fleet.snapshot(running.id, { wait: '30s' })
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      keeper.advance(120_000)
      for (const kept of provider.checkpoints.values()) kept.condition = 'missing'
      await keeper.sweep('test', { asked: true })
      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      await keeper.sweep('test', { asked: true })
      expect(await keeper.state()).toMatchObject({ stopped_because: expect.stringContaining('should be there') })
      for (const { id } of asleep) expect((await fleet.get(id)).state).toBe('suspended')

      for (const kept of provider.checkpoints.values()) kept.condition = 'ready'
      keeper.advance(keeper.deps.housekeeping.lookAgainMs)
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      expect(await keeper.state()).toMatchObject({ stopped_at: null })
      for (const each of asleep) expect(provider.checkpoints.has(checkpointOf(each))).toBe(true)
      expect(provider.checkpoints.has(`snapshot-${operation.id}`)).toBe(true)
    })

    test('keeps a snapshot that somebody was promised, also if it was missing for a while', async () => {
      const { provider, fleet } = world()
      await others(world())
      const running = await world().running()
      const { operation } = await fleet.snapshot(running.id, { wait: '30s' })
      const snapshot = provider.checkpoints.get(`snapshot-${operation.id}`)
      const keeper = housekeeper(world())
      if (snapshot) snapshot.condition = 'missing'
      keeper.advance(120_000)
      await keeper.sweepTwice()
      expect((await fleet.events(running.id)).items.at(-1)?.type).toBe('checkpoint_lost')
      if (snapshot) snapshot.condition = 'ready'
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      expect(provider.checkpoints.has(`snapshot-${operation.id}`)).toBe(true)
    })

    test('keeps a snapshot that a sandbox was imported with, also when that is woken from it', async () => {
      const { provider, fleet, db } = world()
      await others(world())
      const imported = await world().suspended()
      await sql`update sandman.checkpoints set kind = 'snapshot' where id = ${imported.checkpoint?.id}`.execute(db)
      expect((await fleet.resume(imported.id, { wait: '30s' })).operation.status).toBe('succeeded')
      expect(provider.checkpoints.has(checkpointOf(imported))).toBe(true)
      await housekeeper(world()).sweepTwice()
      expect(provider.checkpoints.has(checkpointOf(imported))).toBe(true)
      const kept = await sql`select status from sandman.checkpoints where id = ${imported.checkpoint?.id}`.execute(db)
      expect(kept.rows).toEqual([{ status: 'ready' }])
    })

    test('spares an instance that is taken over during its second look', async () => {
      const { provider, fleet } = world()
      await others(world())
      const { ref } = stray(world(), `sbx_${'0'.repeat(26)}`)
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      keeper.advance(keeper.deps.housekeeping.graceMs)
      const held = provider.holdOnceAt('find')
      const sweeping = keeper.sweep()
      await held.entered(1)
      const { sandbox } = await fleet.adopt({ backend: 'test', ref, wait: '30s' })
      held.open()
      await sweeping
      expect(sandbox.state).toBe('running')
      expect(provider.instances.has(ref)).toBe(true)
    })

    test('finds what is lost behind others that cannot be reached', async () => {
      const { provider } = world()
      const away = await Promise.all(Array.from({ length: 4 }, () => world().running()))
      const lost = await world().suspended()
      await others(world(), 12)
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      provider.shows = (ref) => !away.some(({ providerRef }) => providerRef === ref)
      provider.failsFor = (ref) => away.some(({ providerRef }) => providerRef === ref)
      lose(world(), lost)
      await keeper.sweepTwice()
      expect((await settled(world(), lost)).state).toBe('gone')
      expect(await keeper.state()).toMatchObject({ failing_since: null })
      for (const { id } of away) expect((await world().fleet.get(id)).state).toBe('running')
    })

    test('is not upset by a list that shows the same twice, and says so of one that has no end', async () => {
      const { provider } = world()
      const orphan = stray(world(), `sbx_${'0'.repeat(26)}`)
      await others(world())
      provider.turnsPages = ({ items, next }) => ({ items: [...items, ...items], next })
      const keeper = housekeeper(world())
      await keeper.sweepTwice()
      expect(provider.instances.has(orphan.ref)).toBe(false)
      provider.turnsPages = ({ items }) => ({ items, next: items.length > 0 ? '' : 'a' })
      await keeper.sweep('test', { asked: true })
      expect(await keeper.state()).toMatchObject({ failure: expect.stringContaining('does not come to an end') })
    })

    test('says that it fails when nobody can say where its lists come from', async () => {
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      placedAt(keeper, async () => {
        throw new BackendError('provider_unauthorized', 'who are you?')
      })
      await keeper.sweep()
      expect(await keeper.state()).toMatchObject({ failure: expect.stringContaining('who are you?') })
    })

    test('does not take a worker that stops for a provider that fails', async () => {
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      const stopped = new AbortController()
      placedAt(keeper, async () => {
        stopped.abort(new Error('stopped'))
        throw new BackendError('sandbox_unreachable', 'nobody listens any more')
      })
      await expect(keeper.sweep('test', { signal: stopped.signal })).rejects.toThrow('stopped')
      expect(await keeper.state()).toMatchObject({ failing_since: null })
    })

    test('says so once and not with every tick, and of which place, where one is known', async () => {
      const failures = ({ events }: Housekeeper) =>
        events.happened.filter(({ name }) => name === 'sweep.failing').map(({ fields }) => fields.place)
      const nowhere = async () => {
        throw new BackendError('provider_unauthorized', 'who are you?')
      }
      const keeper = housekeeper(world())
      const named = keeper.deps.backends.get('test') as Backend
      placedAt(keeper, nowhere)
      for (let ticks = 0; ticks < 3; ticks++) await keeper.sweep()
      expect(failures(keeper)).toEqual([undefined])
      placedAt(keeper, named.lists.place)
      await keeper.sweep()
      placedAt(keeper, nowhere)
      for (let ticks = 0; ticks < 3; ticks++) await keeper.sweep()
      expect(failures(keeper)).toEqual([undefined, 'the test account'])
    })

    test('begins anew with what was found from a place that has another name now, and believes no empty one', async () => {
      const { provider, fleet } = world()
      const lost = await world().running()
      const sandboxes = await others(world())
      lose(world(), lost)
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      placedAt(keeper, async () => ({ name: 'renamed', holds: () => true }))
      await keeper.sweepTwice()
      expect((await settled(world(), lost)).state).toBe('gone')

      const all = [...provider.instances.values()]
      provider.instances.clear() // with another key, there is another account
      placedAt(keeper, async () => ({ name: 'elsewhere', holds: () => true }))
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      const state = await world()
        .db.selectFrom('sweeps')
        .selectAll()
        .where('place', '=', 'elsewhere')
        .executeTakeFirst()
      expect(state).toMatchObject({ stopped_at: expect.any(Date) })
      for (const { id } of sandboxes) expect((await fleet.get(id)).state).toBe('running')
      for (const instance of all) provider.instances.set(instance.ref, instance)
    })

    test('remembers what it did when the answer was lost', async () => {
      const { provider, fleet, place, db } = world()
      await others(world())
      const gone = await world().running()
      await fleet.destroy(gone.id, { wait: '30s' })
      const orphan = stray(world(), gone.id)
      const woken = await world().suspended()
      provider.next('discard', { kind: 'status', status: 500 })
      await fleet.resume(woken.id, { wait: '30s' })
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      keeper.advance(keeper.deps.housekeeping.graceMs)
      provider.next('end', { kind: 'cut', performed: true })
      provider.next('discard', { kind: 'cut', performed: true })
      await keeper.sweep('test', { asked: true })
      expect(provider.instances.has(orphan.ref)).toBe(false)
      keeper.advance(keeper.deps.housekeeping.lookAgainMs)
      await keeper.sweep()
      expect((await fleet.events(gone.id)).items.at(-1)?.type).toBe('instance_swept')
      expect((await fleet.events(woken.id)).items.at(-1)?.type).toBe('checkpoint_swept')
      const left =
        await sql`select from sandman.checkpoints where fleet = ${place.fleet} and provider_ref = ${checkpointOf(woken)}
        and status <> 'deleted'`.execute(db)
      expect(left.rows).toEqual([])
    })

    test('does nothing with what it finds once another worker has its place', async () => {
      const { provider, db, place } = world()
      const lost = await world().running()
      await others(world())
      lose(world(), lost)
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      const held = provider.holdOnceAt('look')
      const sweeping = keeper.sweep()
      await held.entered(1)
      await sql`update sandman.sweeps set taken_by = 'another' where fleet = ${place.fleet}`.execute(db)
      held.open()
      expect(await sweeping).toMatchObject({ kind: 'superseded' })
      expect(keeper.events.count('sweep.acted')).toBe(0)
      expect((await world().fleet.get(lost.id)).state).toBe('running')
    })

    test('is told so by the operation that it asks for, when that finds everything as it should be', async () => {
      const { fleet, provider, db, place, eye } = world()
      const [asleep, awake] = [await world().suspended(), await world().running()]
      const bell = { db, producer: eye, fleet: place.fleet, clock: runningClock, events: new Events() }
      for (const [sandbox, kind] of [
        [asleep, 'destroy'],
        [awake, 'kill'],
      ] as const) {
        const { operation } = await ask(bell, { sandboxId: sandbox.id, kind, options: { only: 'lost' } })
        const settled = await fleet.operation(operation.id, { wait: '30s' })
        expect(settled.operation).toMatchObject({ status: 'failed', error: { errorType: 'invalid_transition' } })
        expect(settled.sandbox).toMatchObject({ state: sandbox.state, checkpoint: sandbox.checkpoint })
      }
      expect(provider.checkpoints.has(checkpointOf(asleep))).toBe(true)
    })

    test('is not surprised that what its provider was to end by itself is not there', async () => {
      const { db } = world()
      const expired = await Promise.all(Array.from({ length: 100 }, () => world().running()))
      await sql`update sandman.sandboxes set expires_at = now() - interval '1 minute'
        where id = any (${expired.map(({ id }) => id)}::text[])`.execute(db)
      const keeper = housekeeper(world(), { destroyMax: 200 })
      await keeper.sweep('test', { asked: true })
      for (const each of expired) lose(world(), each)
      await keeper.sweepTwice()
      expect(await keeper.state()).toMatchObject({ stopped_at: null })
      for (const each of expired)
        expect(await settled(world(), each)).toMatchObject({ state: 'gone', goneReason: 'expired' })
    })

    test('leaves operations alone in a dry run', async () => {
      const worker = world().workers[0]
      const { fleet, provider } = world()
      const sandbox = await world().running()
      await worker?.stop()
      await fleet.destroy(sandbox.id)
      const keeper = housekeeper(world())
      keeper.advance(keeper.deps.housekeeping.overdueMs)
      await keeper.sweep('test', { act: false, asked: true })
      expect(provider.instancesOf(sandbox.id)).toHaveLength(1)
      await keeper.sweep('test')
      expect((await fleet.get(sandbox.id)).state).toBe('gone')
      await world().startWorker()
    })
  },
  { stores: ['redis'] },
)

describeWorld(
  'the reaper',
  (world) => {
    test('does not destroy what has slept long enough while an execution waits for it', async () => {
      const { fleet } = world()
      const asleep = await world().suspended({ ttl: { retention: '1h' } })
      const worker = world().workers[0]
      await worker?.stop()
      const { execution } = await fleet.execute(asleep.id, { command: ['work'] })
      const { reap, advance, events } = housekeeper(world())
      advance(2 * HOUR_MS)
      await reap()
      expect(events.count('reaper.asked')).toBe(0)
      world().provider.starts = (agent) => agent.exit()
      await world().startWorker()
      expect((await fleet.execution(execution.id, { wait: '30s' })).execution.status).toBe('succeeded')
    })

    test('is not kept from the others by what cannot be ended', async () => {
      const { fleet, provider } = world()
      const held = provider.holdAt('end')
      const stuck = await Promise.all(Array.from({ length: 6 }, () => world().running({ ttl: { hard: '1h' } })))
      const due = [
        await world().running({ ttl: { hard: '2h' } }),
        await world().suspended({ ttl: { retention: '1h' } }),
      ]
      const { reap, advance, deps } = housekeeper(world(), { destroyMax: 2, housekeeping: { reapAgainMs: 90_000 } })
      advance(2 * HOUR_MS)
      for (let ticks = 0; ticks < 8; ticks++) {
        await reap()
        advance(30_000)
      }
      const asked = async (sandbox: Sandbox) =>
        (await world().operations(sandbox.id)).some(({ kind }) => kind === 'destroy')
      for (const each of [...stuck, ...due]) expect(await asked(each)).toBe(true)
      expect(deps.destroyMax).toBe(2)
      held.open()
      for (const each of [...stuck, ...due])
        await expect.poll(async () => (await fleet.get(each.id)).state).toBe('gone')
    })

    test('comes again at once for what was done: a pause does not keep the retention waiting', async () => {
      const { fleet } = world()
      const sandbox = await world().running({ ttl: { idle: '1h', retention: '1s' } })
      const { reap, advance } = housekeeper(world())
      advance(HOUR_MS)
      await reap()
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('suspended')
      await reap()
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('gone')
    })
  },
  { stores: ['redis'] },
)
