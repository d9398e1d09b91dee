import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'

const HOUR_MS = 3_600_000

describeIncident(
  'G: every resumed sandbox lived for exactly 300 s',
  (world) => {
    const livesFor = (ref: string | null) => (world().provider.instances.get(ref as string)?.endsAtMs ?? 0) - Date.now()

    test('the time-to-live is set on every resume, although resuming has reset it, and read back', async () => {
      const { fleet } = world()
      const { id } = await world().suspended()
      const { sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(livesFor(sandbox.providerRef)).toBeGreaterThan(HOUR_MS - 60_000)
      expect(sandbox.expiresAt?.getTime()).toBe(world().provider.instances.get(sandbox.providerRef as string)?.endsAtMs)
    })

    test('it is the sandbox’s own hard limit when it has one', async () => {
      const { fleet } = world()
      const { id } = await world().suspended({ ttl: { hard: '3h' } })
      const { sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(livesFor(sandbox.providerRef)).toBeGreaterThan(3 * HOUR_MS - 60_000)
    })

    test('a set that was lost is found out by reading back, and set again', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      provider.ttlMsMax = 300_000
      const held = provider.holdAt('lease')
      const resuming = fleet.resume(id, { wait: '30s' })
      await held.entered(1)
      held.open()
      await expect.poll(() => provider.count('lease')).toBeGreaterThan(0)
      const { operation, sandbox } = await resuming
      // A provider with a shorter maximum is believed after the second time, and the truth is what is shown.
      expect(operation.status).toBe('succeeded')
      expect(
        provider.performed.filter(({ method, ref }) => method === 'lease' && ref === sandbox.providerRef).length,
      ).toBe(3)
      expect((sandbox.expiresAt as Date).getTime() - Date.now()).toBeLessThan(300_001)
      const { items } = await fleet.events(id)
      expect(items.at(-1)?.detail).toMatchObject({ evidence: { lease: { asked_ms: HOUR_MS } } })
    })

    test('a pause that has woken it again writes down what time that has left it, so that it is given more', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const instance = provider.instances.get(providerRef as string)
      provider.thawsWithoutCheckpoint = true
      const held = provider.holdAt('verify')
      const pausing = fleet.pause(id, { wait: '30s' })
      await held.entered(1)
      provider.checkpoints.delete(instance?.checkpointRef as string)
      held.open()
      expect((await pausing).sandbox).toMatchObject({
        state: 'running',
        expiresAt: new Date(instance?.endsAtMs as number),
      })
      expect(livesFor(providerRef)).toBeLessThan(300_001)
      await housekeeper(world()).reap()
      expect(livesFor(providerRef)).toBeGreaterThan(HOUR_MS - 60_000)
    })

    test('so does a snapshot that has woken what its provider had put to sleep, and was told nothing of it', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const instance = provider.instances.get(providerRef as string)
      Object.assign(instance as object, { state: 'suspended', checkpointRef: 'nowhere' })
      provider.thawsWithoutCheckpoint = true
      provider.next('resume', { kind: 'cut', performed: true })
      const { sandbox } = await fleet.snapshot(id, { wait: '30s' })
      expect(sandbox).toMatchObject({
        state: 'running',
        incarnation: '2',
        expiresAt: new Date(instance?.endsAtMs as number),
      })
      expect(livesFor(providerRef)).toBeLessThan(300_001)
    })
  },
  { stores: ['redis'] },
)
