import { beforeEach, expect, test } from 'vitest'
import type { Sandbox } from '../../src/index.ts'
import { sweeperQueue } from '../../src/queues/sweeper.ts'
import { describeWorld } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'
import type { FakeInstance } from '../support/provider/cloud.ts'
import { forget, lose, others, settled, stray } from './setup.ts'

describeWorld(
  'the sweeper',
  (world) => {
    beforeEach(() => forget(world()))

    test('ends a sandbox that its provider has lost after two looks apart, and says what was seen', async () => {
      const lost = await world().running()
      const asleep = await world().suspended()
      const healthy = await others(world())
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      expect(await keeper.findings()).toEqual([])
      lose(world(), lost)
      lose(world(), asleep)
      await keeper.sweep('test', { asked: true })
      expect(await keeper.findings()).toMatchObject(
        [lost, asleep]
          .map(({ id, providerRef }) => ({
            kind: 'instance_missing',
            sandbox_id: id,
            ref: providerRef,
            acted_at: null,
          }))
          .toSorted((a, b) => (String(a.ref) < String(b.ref) ? -1 : 1)),
      )
      await keeper.sweep()
      expect((await world().fleet.get(lost.id)).state).toBe('running')
      expect((await world().fleet.get(asleep.id)).state).toBe('suspended')
      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      await keeper.sweep()
      for (const each of [lost, asleep]) {
        expect(await settled(world(), each)).toMatchObject({ state: 'gone', goneReason: 'expired' })
        const operation = (await world().operations(each.id)).at(-1)
        expect(operation?.cause).toMatchObject({
          by: 'sweeper',
          found: 'instance_missing',
          ref: each.providerRef,
          looks: [
            { place: 'the test account', asked: expect.stringContaining('no list of round'), saw: expect.any(String) },
            { place: 'the test account', asked: each.providerRef, saw: 'there is no such instance' },
          ],
        })
      }
      for (const each of healthy) expect((await world().fleet.get(each.id)).state).toBe('running')
    })

    test('ends the schedule of a backend that no worker has had for a whole round, and waits for one until then', async () => {
      const { eye } = world()
      const keeper = housekeeper(world())
      const schedules = async () => {
        const sweeper = (await eye.all()).find(({ name }) => name === 'sweeper')
        return (await sweeper?.queue.getJobSchedulers())?.map(({ key }) => key)
      }
      await eye.schedule(sweeperQueue, 'sweeper-past', { backend: 'past', act: true, asked: false })
      expect(await keeper.sweep('past')).toMatchObject({ kind: 'snoozed' })
      expect(await schedules()).toContain('sweeper-past')
      const madeAt = new Date(Date.now() - keeper.deps.housekeeping.roundMs - 1_000)
      expect(await keeper.sweep('past', { madeAt })).toMatchObject({ kind: 'superseded' })
      expect(await schedules()).not.toContain('sweeper-past')
    })

    test('dismisses what was suspected once and is there again', async () => {
      const { provider } = world()
      const away = await world().running()
      await others(world())
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      const instance = provider.instances.get(away.providerRef as string) as FakeInstance
      lose(world(), away)
      await keeper.sweep('test', { asked: true })
      expect(await keeper.findings()).toHaveLength(1)
      provider.instances.set(instance.ref, instance)
      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      await keeper.sweep()
      expect(await keeper.findings()).toEqual([])
      expect(keeper.events.count('sweep.dismissed')).toBe(1)
      expect((await world().fleet.get(away.id)).state).toBe('running')
    })

    test('ends a sandbox that sleeps on a checkpoint which is gone, or broken, and its instance with it', async () => {
      const { provider, fleet } = world()
      const missing = await world().suspended()
      const corrupt = await world().suspended()
      const healthy = await world().suspended()
      await others(world())
      const keeper = housekeeper(world())
      provider.checkpoints.delete(missing.checkpoint?.providerRef as string)
      const kept = provider.checkpoints.get(corrupt.checkpoint?.providerRef as string)
      if (kept) kept.condition = 'corrupt'
      provider.shows = (ref) => ref !== kept?.ref
      await keeper.sweep('test', { asked: true })
      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      await keeper.sweep()
      expect(await settled(world(), missing)).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
      expect(await settled(world(), corrupt)).toMatchObject({ state: 'gone', goneReason: 'checkpoint_corrupt' })
      expect((await fleet.get(healthy.id)).state).toBe('suspended')
      for (const { id } of [missing, corrupt]) expect(provider.instancesOf(id)).toEqual([])
    })

    test('looks again at young checkpoints, by themselves and not in a list', async () => {
      const { provider, fleet } = world()
      const failed = await world().suspended()
      const arrived = await world().suspended()
      const running = await world().running()
      const { operation } = await fleet.snapshot(running.id, { wait: '30s' })
      const snapshot = provider.checkpoints.get(`snapshot-${operation.id}`)
      const keeper = housekeeper(world(), { housekeeping: { roundMs: 1e12 } })
      await keeper.sweep()
      const kept = provider.checkpoints.get(failed.checkpoint?.providerRef as string)
      if (!kept || !snapshot) throw new Error('there were checkpoints')
      kept.condition = 'missing' // its upload failed after it had been seen
      snapshot.condition = 'missing'
      keeper.advance(120_000)
      await keeper.sweep()
      const found = (await keeper.findings()).filter(({ kind }) => kind === 'checkpoint_missing')
      expect(found.map(({ ref }) => ref).toSorted()).toEqual([kept.ref, snapshot.ref].toSorted())
      expect((await fleet.get(arrived.id)).checkpoint?.verifiedAt?.getTime()).toBeGreaterThan(Date.now() + 100_000)
      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      await keeper.sweep()
      expect((await fleet.get(failed.id)).state).toBe('suspended') // no whole round was believed since
      keeper.advance(keeper.deps.housekeeping.lookAgainMs)
      await keeper.sweep('test', { asked: true })
      expect(await settled(world(), failed)).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
      expect((await fleet.get(running.id)).state).toBe('running')
      const rows = await world().db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', running.id).execute()
      expect(rows).toMatchObject([{ kind: 'snapshot', status: 'missing' }])
      expect((await fleet.events(running.id)).items.at(-1)).toMatchObject({ type: 'checkpoint_lost' })

      const verified = () => provider.count('verify', arrived.checkpoint?.providerRef)
      const before = verified()
      keeper.advance(3_600_000)
      await keeper.sweep()
      expect(verified()).toBe(before + 1)
      keeper.advance(30 * 86_400_000)
      await keeper.sweep()
      expect(verified()).toBe(before + 1) // it is not young any more
    })

    test('ends instances that no sandbox has, after a while and a second look, and says so in history', async () => {
      const { provider, fleet } = world()
      const owned = await others(world(), 4)
      const gone = await world().running()
      await fleet.destroy(gone.id, { wait: '30s' })
      const ofGone = stray(world(), gone.id)
      const second = stray(world(), (owned[0] as Sandbox).id)
      const unknown = stray(world(), `sbx_${'0'.repeat(26)}`)
      const unlabelled = stray(world(), gone.id, { fleet: '' })
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      keeper.advance(keeper.deps.housekeeping.graceMs - 60_000)
      await keeper.sweep('test', { asked: true })
      expect(provider.instances.has(ofGone.ref)).toBe(true)
      keeper.advance(60_000)
      await keeper.sweep()
      for (const { ref } of [ofGone, second, unknown]) expect(provider.instances.has(ref)).toBe(false)
      expect(provider.instances.has(unlabelled.ref)).toBe(true)
      for (const { id } of owned) expect((await fleet.get(id)).state).toBe('running')
      expect((await fleet.events(gone.id)).items.at(-1)).toMatchObject({
        type: 'instance_swept',
        detail: {
          found: 'instance_unowned',
          ref: ofGone.ref,
          looks: [{}, { saw: expect.stringContaining('is gone: destroyed') }],
        },
      })
      provider.instances.delete(unlabelled.ref)
    })

    test('does not touch an instance whose sandbox is on its way, or is being taken over', async () => {
      const { provider, fleet } = world()
      await others(world())
      const adopted = stray(world(), `sbx_${'0'.repeat(26)}`)
      const held = provider.holdAt('look')
      const { sandbox } = await fleet.adopt({ backend: 'test', ref: adopted.ref })
      const { sandbox: spawning } = await fleet.spawn({ backend: 'test' })
      await held.entered(2)
      expect(provider.instancesOf(spawning.id)).toHaveLength(1)
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      expect(await keeper.findings()).toEqual([])
      held.open()
      expect(await settled(world(), sandbox)).toMatchObject({ state: 'running', providerRef: adopted.ref })
      expect((await settled(world(), spawning)).state).toBe('running')
      await keeper.sweepTwice()
      expect(provider.instances.has(adopted.ref)).toBe(true)
    })

    test('deletes checkpoints that nothing rests on and nobody was promised, and no others', async () => {
      const { provider, fleet, place } = world()
      const asleep = await world().suspended()
      const awake = await world().running()
      const { operation: promised } = await fleet.snapshot(awake.id, { wait: '30s' })
      await others(world())
      // What is left when the discard after a waking fails.
      const woken = await world().suspended()
      provider.next('discard', { kind: 'status', status: 500 })
      await fleet.resume(woken.id, { wait: '30s' })
      const left = woken.checkpoint?.providerRef as string
      const unheard = {
        of: awake.providerRef as string,
        fleet: `${place.fleet}/test`,
        sandboxId: awake.id,
        kind: 'pause' as const,
      }
      provider.checkpoints.set('unheard', { ref: 'unheard', ...unheard, condition: 'ready' })
      provider.checkpoints.set('theirs', { ref: 'theirs', ...unheard, fleet: 'theirs/test', condition: 'ready' })
      const keeper = housekeeper(world())
      await keeper.sweepTwice()
      expect(provider.checkpoints.has('unheard')).toBe(false)
      expect(provider.checkpoints.has(left)).toBe(false)
      for (const ref of ['theirs', `snapshot-${promised.id}`, asleep.checkpoint?.providerRef as string])
        expect(provider.checkpoints.has(ref)).toBe(true)
      const row = await world()
        .db.selectFrom('checkpoints')
        .selectAll()
        .where('provider_ref', '=', left)
        .executeTakeFirst()
      expect(row?.status).toBe('deleted')
    })

    test('keeps what is left of a sandbox that is gone for as long as it would have been kept asleep', async () => {
      const { provider, fleet } = world()
      await others(world())
      const killed = await world().running({ ttl: { retention: '3h' } })
      const { operation } = await fleet.snapshot(killed.id, { wait: '30s' })
      await fleet.kill(killed.id, { wait: '30s' })
      const ref = `snapshot-${operation.id}`
      const keeper = housekeeper(world())
      keeper.advance(3_600_000)
      await keeper.sweepTwice()
      expect(provider.checkpoints.has(ref)).toBe(true)
      keeper.advance(2 * 3_600_000)
      await keeper.sweepTwice()
      expect(provider.checkpoints.has(ref)).toBe(false)
    })

    test('acts no more often in one tick than it may, and goes on with the next', async () => {
      const lost = await Promise.all(Array.from({ length: 3 }, () => world().running()))
      const keeper = housekeeper(world(), { destroyMax: 2 })
      for (const each of lost) lose(world(), each)
      await keeper.sweep('test', { asked: true })
      keeper.advance(keeper.deps.housekeeping.looksApartMs)
      await keeper.sweep()
      expect(keeper.events.count('sweep.acted')).toBe(2)
      expect(keeper.events.count('sweep.capped')).toBe(1)
      await keeper.sweep()
      expect(keeper.events.count('sweep.acted')).toBe(3)
      for (const each of lost) expect((await settled(world(), each)).state).toBe('gone')
    })

    test('only writes down what it finds when it may not act', async () => {
      const { provider } = world()
      const lost = await world().running()
      lose(world(), lost)
      const orphan = stray(world(), `sbx_${'0'.repeat(26)}`)
      await others(world())
      const keeper = housekeeper(world(), { mayAct: false })
      for (let looks = 0; looks < 4; looks++) await keeper.sweepTwice()
      expect(await keeper.findings()).toMatchObject([
        { kind: 'instance_unowned', ref: orphan.ref, acted_at: null, looks: [{}, {}] },
        { kind: 'instance_missing', sandbox_id: lost.id, acted_at: null, looks: [{}, {}] },
      ])
      expect((await world().fleet.get(lost.id)).state).toBe('running')
      expect(provider.instances.has(orphan.ref)).toBe(true)
      const acting = housekeeper(world())
      acting.advance(3_600_000)
      await acting.sweep()
      expect((await settled(world(), lost)).state).toBe('gone')
      expect(provider.instances.has(orphan.ref)).toBe(false)
    })

    test('is done by one worker at a time, and goes on where another was cut off', async () => {
      const { provider } = world()
      const lost = await world().suspended()
      await others(world(), 5)
      lose(world(), lost)
      provider.pageSize = 2
      const cursors = () =>
        provider.performed
          .filter(({ method }) => method === 'list')
          .map(({ body }) => body.cursor as string | undefined)
      const dying = housekeeper(world())
      const other = housekeeper(world())
      const killed = new AbortController()
      provider.performed.length = 0
      const first = provider.holdAt('list')
      const sweeping = dying.sweep('test', { signal: killed.signal })
      await first.entered(1)
      expect(await other.sweep()).toMatchObject({ kind: 'superseded', why: expect.stringContaining('another worker') })
      first.open()
      await expect.poll(() => cursors().length).toBeGreaterThan(1)
      const later = provider.holdAt('list')
      await later.entered(1)
      killed.abort(new Error('killed'))
      await expect(sweeping).rejects.toThrow('killed')
      later.open()
      await other.sweep()
      expect(cursors().filter((cursor) => cursor === undefined)).toHaveLength(1)
      expect(await other.findings()).toMatchObject([{ sandbox_id: lost.id }])
      expect(await other.state()).toMatchObject({ round: 1, phase: 'done', instances: expect.any(Number) })
    })
  },
  { stores: ['redis'] },
)
