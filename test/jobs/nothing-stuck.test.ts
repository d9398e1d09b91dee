import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT, QUICK } from '../support/world.ts'

/** No operation stays open once its provider answers again, and nothing stays behind that no request can reach. */

describeIncident(
  'of nobody yet: stuck, or left behind',
  (world) => {
    const instanceOf = (ref: string | null) => {
      const instance = world().provider.instances.get(ref as string)
      if (!instance) throw new Error('it is not there')
      return instance
    }

    test('what never gets ready can be killed, and a spawn that never gets ready leaves nothing', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      instanceOf(providerRef).state = 'changing'
      expect(await fleet.kill(id, { wait: '50s' })).toMatchObject({
        operation: { status: 'succeeded', attempt: 1 },
        sandbox: { state: 'gone', goneReason: 'killed' },
      })
      provider.neverReady = true
      const { operation, sandbox } = await fleet.spawn({ backend: 'test', wait: '50s' })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_unreachable' } })
      expect(operation.error?.message).toContain('still changing')
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'spawn_failed' })
      expect(provider.instancesOf(sandbox.id)).toEqual([])
    })

    test.each(['pause', 'snapshot', 'resume'] as const)(
      'what a %s finds lost is ended before it is said to be gone',
      async (verb) => {
        const { fleet, provider } = world()
        const { id, providerRef } = await (verb === 'resume' ? world().suspended() : world().running())
        instanceOf(providerRef).state = 'lost'
        const { operation, sandbox } = await fleet[verb](id, { wait: '30s' })
        expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_expired' } })
        expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'instance_lost' })
        expect(provider.instancesOf(id)).toEqual([])
      },
    )

    test('a kill goes on until its provider lets it, once every attempt has failed', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      instanceOf(providerRef).state = 'lost'
      provider.always('end', { kind: 'status', status: 500 })
      const { operation } = await fleet.kill(id)
      const row = async () => (await world().operations(id)).at(-1)
      await expect.poll(async () => (await row())?.failures, { timeout: 40_000 }).toBeGreaterThan(10)
      const message = (await row())?.last_error?.message ?? ''
      expect(message.length).toBeLessThan(400)
      provider.heal()
      const settled = await fleet.operation(operation.id, { wait: '30s' })
      expect(settled).toMatchObject({
        operation: { status: 'succeeded' },
        sandbox: { state: 'gone', goneReason: 'killed' },
      })
    })

    test('one that its provider has put to sleep without a checkpoint is not gone before it was ended', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      instanceOf(providerRef).state = 'suspended'
      provider.always('end', { kind: 'status', status: 500 })
      const { operation } = await fleet.kill(id)
      await expect
        .poll(async () => (await world().operations(id)).at(-1)?.failures, { timeout: 50_000 })
        .toBeGreaterThan(8)
      expect((await fleet.get(id)).state).toBe('killing')
      provider.heal()
      expect((await fleet.operation(operation.id, { wait: '30s' })).sandbox).toMatchObject({ goneReason: 'killed' })
    })

    test('a destroy is not done before everything is deleted', async () => {
      const { fleet, provider } = world()
      const { id, checkpoint } = await world().suspended()
      provider.always('discard', { kind: 'status', status: 500 })
      const { operation } = await fleet.destroy(id)
      await expect
        .poll(async () => (await world().operations(id)).at(-1)?.failures, { timeout: 40_000 })
        .toBeGreaterThan(8)
      expect((await fleet.get(id)).state).toBe('killing')
      provider.heal()
      expect((await fleet.operation(operation.id, { wait: '30s' })).sandbox).toMatchObject({ goneReason: 'destroyed' })
      expect(provider.checkpoints.has(checkpoint?.providerRef as string)).toBe(false)
    })

    test('a kill ends whatever carries the sandbox’s label', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      provider.instances.set('twin', { ...instanceOf(providerRef), ref: 'twin' })
      await fleet.kill(id, { wait: '30s' })
      expect(provider.instancesOf(id)).toEqual([])
    })

    test('a snapshot that finds the sandbox asleep without a checkpoint wakes it again', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      instanceOf(providerRef).state = 'suspended'
      provider.thawsWithoutCheckpoint = true
      const { operation, sandbox } = await fleet.snapshot(id, { wait: '30s' })
      expect(operation).toMatchObject({
        status: 'failed',
        checkpointId: null,
        error: { errorType: 'checkpoint_missing' },
      })
      expect(sandbox).toMatchObject({ state: 'running', incarnation: '2' })
    })

    test('a resume that may have woken it is not said to have left it asleep: once somebody can look, it is awake', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended()
      const held = provider.holdOnceAt('resume')
      const { operation } = await fleet.resume(id)
      await held.entered(1)
      provider.always('look', { kind: 'status', status: 500 })
      provider.next('resume', { kind: 'cut', performed: true })
      held.open()
      await expect
        .poll(async () => (await world().operations(id)).at(-1)?.failures, { timeout: 40_000 })
        .toBeGreaterThan(2)
      expect((await fleet.get(id)).state).toBe('resuming')
      provider.heal()
      const { sandbox } = await fleet.operation(operation.id, { wait: '30s' })
      // All attempts were used up, so it was not worked on any more: what runs is put back to sleep.
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
      expect(provider.instancesOf(id)).toMatchObject([{ state: 'suspended' }])
    })

    test('what was woken in vain and put back rests on what it sleeps on now, also when that answer was lost', async () => {
      const { fleet, provider } = world()
      const { id, checkpoint } = await world().suspended()
      const { runs } = provider
      provider.runs = () => ({ exitCode: 1, output: '' })
      provider.next('suspend', { kind: 'cut', performed: true })
      const failed = await fleet.resume(id, { wait: '50s' })
      expect(failed.operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_unreachable' } })
      const [instance] = provider.instancesOf(id)
      expect(failed.sandbox).toMatchObject({ state: 'suspended', checkpoint: { providerRef: instance?.checkpointRef } })
      expect(failed.sandbox.checkpoint?.providerRef).not.toBe(checkpoint?.providerRef)
      provider.runs = runs
      expect((await fleet.resume(id, { wait: '50s' })).sandbox.state).toBe('running')
    })

    test('a respawn that fails says why, and not only that it was needed', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().suspended()
      provider.instances.delete(providerRef as string)
      provider.always('create', { kind: 'error', type: 'quota_exceeded', message: 'no more than 20 sandboxes' })
      const { operation, sandbox } = await fleet.resume(id, { ifLost: 'respawn', wait: '30s' })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'quota_exceeded' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'expired' })
    })

    test('whatever a sandbox says can be written down', async () => {
      const { fleet, provider } = world()
      const { id } = await world().suspended({ wake: { commands: ['broken'] } })
      const output = `a\0b ${'😀'.repeat(300)}`.slice(0, -1)
      provider.runs = (command) => ({
        exitCode: command.includes('awake') ? 0 : 1,
        output: command.includes('awake') ? 'awake' : output,
      })
      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'failed', attempt: 2, error: { errorType: 'sandbox_unreachable' } })
      expect(operation.error?.message).toContain('😀')
      expect(sandbox.state).toBe('suspended')
    })

    test('a checkpoint that was given to somebody as a snapshot outlives the resume, and others do not', async () => {
      const { fleet, provider } = world()
      const { id, checkpoint } = await world().suspended()
      const { operation } = await fleet.snapshot(id, { wait: '30s' })
      expect(operation.checkpointId).toBe(checkpoint?.id)
      await fleet.resume(id, { wait: '30s' })
      const second = await fleet.pause(id, { wait: '30s' })
      await fleet.resume(id, { wait: '30s' })
      await expect.poll(() => provider.checkpoints.has(second.sandbox.checkpoint?.providerRef as string)).toBe(false)
      expect(provider.checkpoints.has(checkpoint?.providerRef as string)).toBe(true)
      await world().running({ from: operation.checkpointId as string })
    })

    test('commands that an attempt has left running are ended before the next one runs them again', async () => {
      const { fleet, provider } = world()
      let runs = 0
      provider.runs = (command) => {
        if (command.includes('awake')) return { exitCode: 0, output: 'awake' }
        return { exitCode: runs++ === 0 ? 1 : 0, output: '' }
      }
      const { operation, sandbox } = await fleet.spawn({
        backend: 'test',
        wake: { commands: ['serve &'] },
        wait: '30s',
      })
      expect(operation).toMatchObject({ status: 'succeeded', attempt: 2 })
      expect(provider.count('endLingering', sandbox.providerRef as string)).toBe(1)
    })

    test('a hard limit does not begin anew with every waking', async () => {
      const { fleet } = world()
      const { id, createdAt } = await world().suspended({ ttl: { hard: '2h' } })
      const { sandbox } = await fleet.resume(id, { wait: '30s' })
      const endMs = createdAt.getTime() + 2 * 3_600_000
      expect(Math.abs((sandbox.expiresAt as Date).getTime() - endMs)).toBeLessThan(1_000)
    })
  },
  { patience: { ...IMPATIENT, changingMs: 500, pendingMs: QUICK.pendingMs }, stores: ['redis'] },
)
