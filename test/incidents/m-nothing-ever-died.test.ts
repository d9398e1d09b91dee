import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'

const HOUR_MS = 3_600_000

describeIncident(
  'M: what idles is paused, what is used is woken, and nothing ever died',
  (world) => {
    test('the hard limit ends it, however often it was woken and whatever is asked of it meanwhile', async () => {
      const { fleet } = world()
      const { id } = await world().running({ ttl: { idle: '1h', hard: '6h', retention: '100h' } })
      const { reap, advance } = housekeeper(world())
      const rests = async () => {
        await expect.poll(async () => (await fleet.get(id)).operationId).toBeNull()
        return (await fleet.get(id)).state
      }
      for (let hours = 1; hours < 6; hours++) {
        advance(HOUR_MS)
        await reap()
        expect(await rests()).toBe('suspended')
        const { sandbox } = await fleet.resume(id, { wait: '30s' })
        expect(sandbox.state).toBe('running')
        await fleet.touch(id)
      }
      // Even while it is on its way somewhere: then the end waits for its turn.
      const held = world().provider.holdAt('suspend')
      await fleet.pause(id)
      await fleet.resume(id)
      advance(HOUR_MS)
      // A row that somebody is writing at this very moment is left for the next tick.
      await expect
        .poll(async () => {
          await reap()
          return (await world().operations(id)).at(-1)?.kind
        })
        .toBe('destroy')
      held.open()
      expect(await rests()).toBe('gone')
      expect((await fleet.get(id)).goneReason).toBe('destroyed')
    })

    test('one that sleeps and is never used again ends at its retention, and nothing of it is left', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      const { reap, advance } = housekeeper(world(), { limits: { idleMs: HOUR_MS, retentionMs: 24 * HOUR_MS } })
      advance(HOUR_MS)
      await reap()
      await expect.poll(async () => (await fleet.get(id)).state).toBe('suspended')
      advance(25 * HOUR_MS)
      await reap()
      await expect.poll(async () => (await fleet.get(id)).state).toBe('gone')
      expect(provider.instancesOf(id)).toEqual([])
      expect([...provider.checkpoints.values()].filter(({ sandboxId }) => sandboxId === id)).toEqual([])
    })
  },
  { stores: ['postgres'] },
)
