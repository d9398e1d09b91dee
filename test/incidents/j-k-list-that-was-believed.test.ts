import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { beforeEach, expect, test } from 'vitest'
import type { Sandbox } from '../../src/index.ts'
import { forget, lose, others, settled, stray } from '../housekeeping/setup.ts'
import { describeIncident } from '../support/describe-world.ts'
import { type Housekeeper, housekeeper } from '../support/housekeeper.ts'
import type { Fault } from '../support/provider/calls.ts'

const FAILURES: [string, Fault][] = [
  ['answers with 500', { kind: 'status', status: 500 }],
  ['answers with 404 in plain text', { kind: 'plain 404' }],
  ['hangs', { kind: 'hang', performed: false }],
  ['is cut off', { kind: 'cut', performed: false }],
  ['does not know us any more', { kind: 'error', type: 'provider_unauthorized', message: 'who are you?' }],
]

describeIncident(
  'J and K: a list came back empty, or as a 404 in plain text, and was believed',
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

    test.each(FAILURES)('a look that %s says nothing about its sandbox', async (_what, fault) => {
      const keeper = housekeeper(world(), { patience: patience(housekeeper(world())) })
      const lost = await Promise.all(Array.from({ length: 4 }, () => world().running()))
      for (const each of lost) lose(world(), each)
      world().provider.always('look', fault)
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      expect((await keeper.findings()).filter(({ sandbox_id }) => lost.some(({ id }) => id === sandbox_id))).toEqual([])
      expect(keeper.events.count('sweep.unanswered')).toBeGreaterThan(3)
      for (const { id } of lost) expect((await world().fleet.get(id)).state).toBe('running')
      world().provider.heal()
      await keeper.sweepTwice()
      for (const each of lost) expect((await settled(world(), each)).state).toBe('gone')
    })

    test.each([
      ['nothing', () => false],
      ['a half', (_ref: string, index: number) => index % 2 === 0],
    ])('a list that suddenly shows %s is not believed, also if single looks agree with it', async (_what, isShown) => {
      const sandboxes = await Promise.all([...Array.from({ length: 3 }, () => world().running()), world().suspended()])
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      const all = [...world().provider.instances.values()]
      const forgotten = all.filter(({ ref }, index) => !isShown(ref, index))
      for (const { ref } of forgotten) world().provider.instances.delete(ref) // it has lost its memory
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      expect(await keeper.state()).toMatchObject({
        stopped_at: expect.any(Date),
        stopped_because: expect.stringContaining('should be there'),
      })
      expect(keeper.events.count('sweep.stopped')).toBe(1)
      expect(keeper.events.count('sweep.acted')).toBe(0)
      for (const { id, state } of sandboxes) expect((await world().fleet.get(id)).state).toBe(state)
      for (const instance of forgotten) world().provider.instances.set(instance.ref, instance)
      keeper.advance(keeper.deps.housekeeping.lookAgainMs)
      await keeper.sweep('test', { asked: true })
      expect(await keeper.state()).toMatchObject({ stopped_at: null })
      expect(keeper.events.count('sweep.goes_on')).toBe(1)
    })

    test('a provider that has never been swept, and says of everything that it is not there, is asked with the wrong key', async () => {
      const sandboxes = await Promise.all([...Array.from({ length: 3 }, () => world().running()), world().suspended()])
      const all = [...world().provider.instances.values()]
      world().provider.instances.clear()
      const keeper = housekeeper(world())
      await keeper.sweepTwice()
      await keeper.sweepTwice()
      expect(await keeper.state()).toMatchObject({ stopped_at: expect.any(Date), ended_at: null })
      expect(keeper.events.count('sweep.acted')).toBe(0)
      for (const { id, state } of sandboxes) expect((await world().fleet.get(id)).state).toBe(state)
      for (const instance of all) world().provider.instances.set(instance.ref, instance)
      await keeper.sweepTwice()
      expect(await keeper.state()).toMatchObject({ stopped_at: null })
      expect(await keeper.findings()).toEqual([])
    })

    test('what is shown is believed when somebody who knows says so', async () => {
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

    test('nor is a list of which much carries our label and nobody here has ever heard of it', async () => {
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
