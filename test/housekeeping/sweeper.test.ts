import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import type { Sandbox } from '../../src/index.ts'
import { describeWorld } from '../support/describe-world.ts'
import { type Housekeeper, housekeeper } from '../support/housekeeper.ts'
import type { FakeInstance, Fault } from '../support/provider.ts'
import type { World } from '../support/world.ts'

async function settled(world: World, { id }: { id: string }): Promise<Sandbox> {
  await expect.poll(async () => (await world.fleet.get(id)).operationId).toBeNull()
  return world.fleet.get(id)
}

/** Its provider has lost it, and says so when it is asked for it. */
function lose({ provider }: World, { providerRef }: Sandbox): void {
  provider.instances.delete(providerRef as string)
}

/** Enough others that one which is missing is no sudden loss. */
async function others(world: World, count = 6): Promise<Sandbox[]> {
  return Promise.all(Array.from({ length: count }, () => world.running()))
}

/** Each test begins as if nobody had swept before: the time of the one before it may have been ahead. */
async function forget({ db, provider }: World): Promise<void> {
  for (const { ref, condition } of provider.checkpoints.values())
    if (condition !== 'ready') provider.checkpoints.delete(ref)
  await sql`truncate sandman.findings, sandman.sweeps, sandman.sightings`.execute(db)
}

/** An instance with this fleet's label, of a sandbox that the test names. */
function stray({ provider, place }: World, sandboxId: string, more: Partial<FakeInstance> = {}): FakeInstance {
  const instance: FakeInstance = {
    ref: `stray-${randomUUID().slice(0, 8)}`,
    fleet: `${place.fleet}/test`,
    sandboxId,
    life: 'unknown',
    state: 'running',
    incarnation: 1,
    wokenBy: [],
    checkpointRef: undefined,
    endsAtMs: Date.now() + 3_600_000,
    commands: [],
    agents: new Map(),
    ...more,
  }
  provider.instances.set(instance.ref, instance)
  return instance
}

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

    test('leaves alone what a list does not show and a look does: snapshotting ones, slow lists, old pages', async () => {
      const hidden = await world().running()
      await others(world())
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      world().provider.shows = (ref) => ref !== hidden.providerRef
      await keeper.sweepTwice()
      expect(await keeper.findings()).toEqual([])
      expect((await world().fleet.get(hidden.id)).state).toBe('running')
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
      const orphan = stray(world(), lost.id)
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

const FAILURES: [string, Fault][] = [
  ['answers with 500', { kind: 'status', status: 500 }],
  ['answers with 404 in plain text', { kind: 'plain 404' }],
  ['hangs', { kind: 'hang', performed: false }],
  ['is cut off', { kind: 'cut', performed: false }],
  ['does not know us any more', { kind: 'error', type: 'provider_unauthorized', message: 'who are you?' }],
]

describeWorld(
  'a provider that cannot be believed',
  (world) => {
    beforeEach(() => forget(world()))

    async function suspectsOne(keeper: Housekeeper): Promise<Sandbox> {
      const lost = await world().running()
      await others(world())
      await keeper.sweep('test', { asked: true })
      lose(world(), lost)
      await keeper.sweep('test', { asked: true })
      expect(await keeper.findings()).toContainEqual(expect.objectContaining({ sandbox_id: lost.id, acted_at: null }))
      return lost
    }

    const patience = (keeper: Housekeeper) => {
      const known = keeper.deps.patience
      return { ...known, callMs: { ...known?.callMs, list: 300, look: 300 } } as never
    }

    test.each(FAILURES)(
      'stops the sweep when its list %s: nothing is ended, and it is visible',
      async (_what, fault) => {
        const keeper = housekeeper(world(), { patience: patience(housekeeper(world())) })
        const lost = await suspectsOne(keeper)
        world().provider.always('list', fault)
        keeper.advance(keeper.deps.housekeeping.graceMs)
        await keeper.sweep()
        await keeper.sweep()
        expect(await keeper.state()).toMatchObject({
          phase: 'done',
          failing_since: expect.any(Date),
          failure: expect.any(String),
        })
        expect(keeper.events.count('sweep.failing')).toBe(1)
        expect(keeper.events.count('sweep.acted')).toBe(0)
        expect((await world().fleet.get(lost.id)).state).toBe('running')
        world().provider.heal()
        await keeper.sweep()
        expect(await keeper.state()).toMatchObject({ failing_since: null, failure: null })
        expect((await settled(world(), lost)).state).toBe('gone')
      },
    )

    test.each(FAILURES)('concludes nothing when its single looks fail: it %s', async (_what, fault) => {
      const keeper = housekeeper(world(), { patience: patience(housekeeper(world())) })
      const lost = await Promise.all(Array.from({ length: 4 }, () => world().running()))
      for (const each of lost) lose(world(), each)
      world().provider.always('look', fault)
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      expect((await keeper.findings()).filter(({ sandbox_id }) => lost.some(({ id }) => id === sandbox_id))).toEqual([])
      expect(await keeper.state()).toMatchObject({ failing_since: expect.any(Date) })
      for (const { id } of lost) expect((await world().fleet.get(id)).state).toBe('running')
      world().provider.heal()
      await keeper.sweepTwice()
      for (const each of lost) expect((await settled(world(), each)).state).toBe('gone')
    })

    test.each([
      ['nothing', () => false],
      ['a half', (_ref: string, index: number) => index % 2 === 0],
    ])(
      'is not believed when its list suddenly shows %s, also if single looks agree with it',
      async (_what, isShown) => {
        const sandboxes = await Promise.all([
          ...Array.from({ length: 3 }, () => world().running()),
          world().suspended(),
        ])
        const keeper = housekeeper(world())
        await keeper.sweep('test', { asked: true })
        const all = [...world().provider.instances.values()]
        const forgotten = all.filter(({ ref }, index) => !isShown(ref, index))
        for (const { ref } of forgotten) world().provider.instances.delete(ref) // it has lost its memory
        await keeper.sweepTwice()
        await keeper.sweepTwice()
        expect(await keeper.state()).toMatchObject({
          stopped_at: expect.any(Date),
          stopped_because: expect.stringContaining('now does not show'),
        })
        expect(keeper.events.count('sweep.stopped')).toBe(1)
        expect(keeper.events.count('sweep.acted')).toBe(0)
        for (const { id, state } of sandboxes) expect((await world().fleet.get(id)).state).toBe(state)
        for (const instance of forgotten) world().provider.instances.set(instance.ref, instance)
        await keeper.sweep('test', { asked: true })
        expect(await keeper.state()).toMatchObject({ stopped_at: null })
        expect(keeper.events.count('sweep.goes_on')).toBe(1)
      },
    )

    test('is believed again when somebody who knows says so', async () => {
      const { fleet, provider, db, place } = world()
      const sandboxes = await Promise.all(Array.from({ length: 4 }, () => world().running()))
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      provider.instances.clear()
      await keeper.sweepTwice()
      expect(await keeper.state()).toMatchObject({ stopped_at: expect.any(Date) })
      await sql`update sandman.sweeps set believed_until = now() + interval '1 day' where fleet = ${place.fleet}`.execute(
        db,
      )
      await keeper.sweepTwice()
      for (const each of sandboxes) expect((await settled(world(), each)).state).toBe('gone')
      expect((await fleet.list({ state: 'running' })).items).toEqual([])
    })

    test('is not believed when much of what carries our label is of sandboxes that nobody here has heard of', async () => {
      const mine = await others(world(), 2)
      const strangers = Array.from({ length: 2 }, () =>
        stray(world(), `sbx_${randomUUID().replaceAll('-', '').slice(0, 26)}`),
      )
      const keeper = housekeeper(world())
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      expect(await keeper.state()).toMatchObject({ stopped_because: expect.stringContaining('never heard of') })
      for (const { ref } of strangers) {
        expect(world().provider.instances.has(ref)).toBe(true)
        world().provider.instances.delete(ref)
      }
      for (const { id } of mine) expect((await world().fleet.get(id)).state).toBe('running')
    })
  },
  { stores: ['redis'] },
)
