import { sql } from 'kysely'
import { expect, test } from 'vitest'
import { runningClock } from '../../src/clock.ts'
import { Events } from '../../src/events.ts'
import { ask } from '../../src/fleet/ask.ts'
import type { Sandbox } from '../../src/index.ts'
import { describeWorld } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'
import type { FakeInstance } from '../support/provider/cloud.ts'
import type { World } from '../support/world.ts'
import { settled } from './setup.ts'

const MINUTE_MS = 60_000
const HOUR_MS = 60 * MINUTE_MS

const instanceOf = ({ provider }: World, { providerRef }: Sandbox) =>
  provider.instances.get(providerRef as string) as FakeInstance

/** Its time at its provider is over then, and the row says so. */
async function endsIn(world: World, sandbox: Sandbox, ms: number): Promise<void> {
  const endsAtMs = Date.now() + ms
  instanceOf(world, sandbox).endsAtMs = endsAtMs
  await sql`update sandman.sandboxes set expires_at = ${new Date(endsAtMs)} where id = ${sandbox.id}`.execute(world.db)
}

describeWorld(
  'the reaper',
  (world) => {
    const leaseLeft = (sandbox: Sandbox) => instanceOf(world(), sandbox).endsAtMs - Date.now()
    const asked = (sandbox: Sandbox) => world().provider.count('lease', sandbox.providerRef as string)

    test('gives what runs more time at its provider when half of it is over, and writes down what that made of it', async () => {
      const [soon, later] = [await world().running(), await world().running()]
      await endsIn(world(), soon, 29 * MINUTE_MS)
      await endsIn(world(), later, 31 * MINUTE_MS)
      const before = [asked(soon), asked(later)] as const
      const { reap, events } = housekeeper(world())
      await reap()
      expect(leaseLeft(soon)).toBeGreaterThan(HOUR_MS - MINUTE_MS)
      expect((await world().fleet.get(soon.id)).expiresAt?.getTime()).toBe(instanceOf(world(), soon).endsAtMs)
      expect([asked(soon), asked(later)]).toEqual([before[0] + 1, before[1]])
      expect(await events.until('reaper.ticked')).toMatchObject({ fields: { renewed: 1 } })
      await reap()
      expect(asked(soon)).toBe(before[0] + 1)
    })

    test('does so for what has work, and for nobody beyond its hard limit', async () => {
      const sandbox = await world().running({ ttl: { hard: '20m' } })
      await endsIn(world(), sandbox, MINUTE_MS)
      await housekeeper(world()).reap()
      expect(leaseLeft(sandbox)).toBeGreaterThan(18 * MINUTE_MS)
      expect(leaseLeft(sandbox)).toBeLessThan(20 * MINUTE_MS)
    })

    test('does so for what runs as another incarnation than the one that was written down, and writes that down, too', async () => {
      const sandbox = await world().running()
      await endsIn(world(), sandbox, MINUTE_MS)
      instanceOf(world(), sandbox).incarnation += 1
      await housekeeper(world()).reap()
      expect(leaseLeft(sandbox)).toBeGreaterThan(HOUR_MS - MINUTE_MS)
      const { incarnation } = await world().fleet.get(sandbox.id)
      expect(incarnation).toBe(String(instanceOf(world(), sandbox).incarnation))
    })

    test('writes nothing down of one that was resumed while it was asked about', async () => {
      const { fleet, provider } = world()
      const sandbox = await world().running()
      await endsIn(world(), sandbox, MINUTE_MS)
      const held = provider.holdOnceAt('lease')
      const reaping = housekeeper(world()).reap()
      await held.entered(1)
      await fleet.pause(sandbox.id, { wait: '30s' })
      const { sandbox: resumed } = await fleet.resume(sandbox.id, { wait: '30s' })
      held.open()
      await reaping
      expect(await fleet.get(sandbox.id)).toMatchObject({
        incarnation: resumed.incarnation,
        expiresAt: resumed.expiresAt,
      })
    })

    test('leaves alone what somebody has woken before it could be written down as asleep', async () => {
      const { provider, fleet } = world()
      const sandbox = await world().running()
      await endsIn(world(), sandbox, -MINUTE_MS)
      const instance = instanceOf(world(), sandbox)
      const held = provider.holdOnceAt('look')
      instance.state = 'suspended'
      const reaping = housekeeper(world()).reap()
      await held.entered(1)
      held.open()
      await reaping
      instance.state = 'running'
      await settled(world(), sandbox)
      expect((await fleet.get(sandbox.id)).state).toBe('running')
      expect(provider.count('suspend', sandbox.providerRef as string)).toBe(0)
    })

    test('says of an execution that was cut off by that, that nobody had cancelled it', async () => {
      const { provider, fleet } = world()
      const sandbox = await world().running({ agent: { command: ['agent'] } })
      const following = fleet.execute(sandbox.id, { wait: '30s' })
      await expect
        .poll(async () => (await fleet.executions({ sandboxId: sandbox.id })).items[0]?.status)
        .toBe('running')
      await endsIn(world(), sandbox, -MINUTE_MS)
      Object.assign(instanceOf(world(), sandbox), { state: 'suspended', checkpointRef: 'in-between' })
      const ref = sandbox.providerRef as string
      provider.checkpoints.set('in-between', { ref: 'in-between', of: ref, condition: 'ready' })
      await housekeeper(world()).reap()
      const { execution } = await following
      expect(execution).toMatchObject({ status: 'failed', reason: 'instance_lost' })
      expect((await settled(world(), sandbox)).state).toBe('suspended')
    })

    test('writes down as suspended what its provider has put to sleep, and wakes nobody', async () => {
      const { provider, fleet } = world()
      const sandbox = await world().running()
      await endsIn(world(), sandbox, -MINUTE_MS)
      const ref = sandbox.providerRef as string
      Object.assign(instanceOf(world(), sandbox), { state: 'suspended', checkpointRef: 'at-its-end' })
      provider.checkpoints.set('at-its-end', { ref: 'at-its-end', of: ref, condition: 'ready' })
      await housekeeper(world()).reap()
      await settled(world(), sandbox)
      expect(await fleet.get(sandbox.id)).toMatchObject({
        state: 'suspended',
        checkpoint: { providerRef: 'at-its-end' },
      })
      expect(provider.count('suspend', ref)).toBe(0)
      const { story } = await fleet.why(sandbox.id)
      expect(JSON.stringify(story)).toContain('Its provider had put it to sleep when its time there was over')
    })

    test('is not kept from the others by one whose provider does not answer, and tries that again later', async () => {
      const { provider } = world()
      const [silent, other] = [await world().running(), await world().running()]
      for (const sandbox of [silent, other]) await endsIn(world(), sandbox, MINUTE_MS)
      provider.failsFor = (ref) => ref === silent.providerRef
      const { reap, advance, events } = housekeeper(world())
      await reap()
      expect(leaseLeft(other)).toBeGreaterThan(HOUR_MS - MINUTE_MS)
      expect(events.count('reaper.not_renewed')).toBe(1)
      provider.becomeHonest()
      await reap()
      expect(leaseLeft(silent)).toBeLessThan(MINUTE_MS)
      advance(5 * MINUTE_MS)
      await reap()
      expect(leaseLeft(silent)).toBeGreaterThan(HOUR_MS - MINUTE_MS)
    })

    test('goes on behind several that cannot be reached, as long as their provider can be', async () => {
      const { provider } = world()
      const silent = await Promise.all(Array.from({ length: 6 }, () => world().running()))
      for (const each of silent) await endsIn(world(), each, MINUTE_MS)
      const other = await world().running()
      await endsIn(world(), other, 2 * MINUTE_MS)
      provider.failsFor = (ref) => silent.some(({ providerRef }) => providerRef === ref)
      const { reap, advance, events } = housekeeper(world(), { housekeeping: { renewBatch: 2 } })
      provider.next('list', { kind: 'status', status: 503 })
      await reap()
      expect(events.count('reaper.not_renewed')).toBe(4) // two claims: by then its list does not answer either
      expect(leaseLeft(other)).toBeLessThan(2 * MINUTE_MS)
      advance(5 * MINUTE_MS)
      await reap()
      expect(events.count('reaper.not_renewed')).toBe(10)
      expect(leaseLeft(other)).toBeGreaterThan(HOUR_MS - MINUTE_MS)
    })

    test('puts nobody to sleep who is awake: who was only thought to sleep is left alone', async () => {
      const { db, eye, place, fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const bell = { db, producer: eye, fleet: place.fleet, clock: runningClock, events: new Events() }
      const { operation } = await ask(bell, { sandboxId: id, kind: 'pause', options: { only: 'asleep' } })
      const answer = await fleet.operation(operation.id, { wait: '30s' })
      expect(answer.operation).toMatchObject({ status: 'failed', error: { errorType: 'invalid_transition' } })
      expect(answer.sandbox.state).toBe('running')
      expect(provider.count('suspend', providerRef as string)).toBe(0)
    })
  },
  { stores: ['postgres'] },
)
