import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'

describeIncident(
  'L: a sandbox was missing from the list of its provider while a snapshot was taken of it',
  (world) => {
    test('what a list does not show is looked at by its name, and is not even suspected when it is there', async () => {
      const { fleet, provider } = world()
      const [hidden] = [await world().running(), await world().running(), await world().running()]
      const keeper = housekeeper(world())
      await keeper.sweep('test', { asked: true })
      provider.shows = (ref) => ref !== hidden.providerRef
      const held = provider.holdAt('take')
      const snapshotting = fleet.snapshot(hidden.id, { wait: '30s' })
      await held.entered(1)
      await keeper.sweep('test', { asked: true })
      expect(await keeper.findings()).toEqual([])
      held.open()
      expect((await snapshotting).operation).toMatchObject({ status: 'succeeded' })
      const before = provider.count('look', hidden.providerRef as string)
      await keeper.sweep('test', { asked: true }) // at rest, and still not shown
      expect(await keeper.findings()).toEqual([])
      await keeper.sweepTwice()
      expect(provider.count('look', hidden.providerRef as string)).toBeGreaterThan(before)
      expect(await keeper.findings()).toEqual([])
      expect((await fleet.get(hidden.id)).state).toBe('running')
    })
  },
  { stores: ['redis'] },
)
