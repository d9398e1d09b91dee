import { expect, test } from 'vitest'
import { describeIncident } from '../support/describe-world.ts'
import { IMPATIENT } from '../support/world.ts'

describeIncident(
  'E: kill meets pause',
  (world) => {
    test('a kill during a pause and a kill after it have the same result: the sandbox its user paused stays paused', async () => {
      const { fleet, provider } = world()
      const during = await world().running()
      const after = await world().running()
      const held = provider.holdAt('suspend')
      const pausing = fleet.pause(during.id, { wait: '30s' })
      await held.entered(1)
      const killing = fleet.kill(during.id, { wait: '30s' })
      expect((await fleet.kill(during.id)).operation.status).toBe('waiting')
      held.open()
      expect((await pausing).operation).toMatchObject({ status: 'succeeded', outcome: 'done' })

      await fleet.pause(after.id, { wait: '30s' })
      for (const { operation, sandbox } of [await killing, await fleet.kill(after.id, { wait: '30s' })]) {
        expect(operation).toMatchObject({ status: 'succeeded', outcome: 'already_done' })
        expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
        expect(operation.checkpointId).toBe(sandbox.checkpoint?.id)
      }
      expect(provider.count('end', during.providerRef as string)).toBe(0)
    })

    test('if the pause fails and the sandbox still runs, the waiting kill does its work', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      const held = provider.holdAt('suspend')
      const pausing = fleet.pause(id, { wait: '30s' })
      await held.entered(1)
      const killing = fleet.kill(id, { wait: '30s' })
      expect((await fleet.kill(id)).operation.status).toBe('waiting')
      provider.always('suspend', { kind: 'error', type: 'provider_unauthorized', message: 'no' })
      held.open()
      expect((await pausing).operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'provider_unauthorized' },
      })
      const { operation, sandbox } = await killing
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'killed' })
      expect(provider.instancesOf(id)).toEqual([])
    })

    test('a snapshot of a pausing sandbox is an invalid transition, and not a success that did nothing', async () => {
      const { fleet, provider } = world()
      const { id } = await world().running()
      const held = provider.holdAt('suspend')
      const pausing = fleet.pause(id, { wait: '30s' })
      await held.entered(1)
      const { operation } = await fleet.snapshot(id)
      expect(operation).toMatchObject({ status: 'refused', error: { errorType: 'invalid_transition' } })
      held.open()
      await pausing
    })

    test('destroy means it: what was paused is ended with all that it could be resumed from', async () => {
      const { fleet, provider } = world()
      const { id, checkpoint } = await world().suspended()
      const { operation, sandbox } = await fleet.destroy(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'destroyed', checkpoint: null })
      expect(provider.instancesOf(id)).toEqual([])
      expect(provider.checkpoints.has(checkpoint?.providerRef as string)).toBe(false)
    })

    test.each([
      ['pause', 'suspend'],
      ['snapshot', 'take'],
      ['kill', 'end'],
      ['destroy', 'end'],
    ] as const)('fifty who ask for a %s at once have one performer and fifty equal answers', async (verb, method) => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().running()
      const held = provider.holdAt(method)
      // All of them stand in the ledger before the provider has done anything.
      const asked = await Promise.all(Array.from({ length: 50 }, () => fleet[verb](id)))
      await held.entered(1)
      held.open()
      const answers = await Promise.all(asked.map(({ operation }) => fleet.operation(operation.id, { wait: '30s' })))
      expect(new Set(answers.map(({ operation }) => operation.id)).size).toBe(1)
      for (const { operation } of answers) expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(provider.count(method, providerRef as string)).toBe(1)
    })

    test('fifty who ask for a resume at once have one performer', async () => {
      const { fleet, provider } = world()
      const { id, providerRef } = await world().suspended()
      const answers = await Promise.all(Array.from({ length: 50 }, () => fleet.resume(id, { wait: '30s' })))
      for (const { operation, sandbox } of answers) {
        expect(operation.status).toBe('succeeded')
        expect(sandbox).toMatchObject({ state: 'running', incarnation: '2' })
      }
      expect(provider.count('resume', providerRef as string)).toBe(1)
    })

    test.each(Array.from({ length: 10 }, (_, nth) => nth))(
      'pause racing resume ends where the last in line says (%i)',
      async () => {
        const { fleet, provider } = world()
        const { id } = await world().running()
        const answers = await Promise.all([
          fleet.pause(id, { wait: '30s' }),
          fleet.resume(id, { wait: '30s' }),
          fleet.pause(id, { wait: '30s' }),
          fleet.resume(id, { wait: '30s' }),
        ])
        expect(answers.map(({ operation }) => operation.status)).toEqual(Array(4).fill('succeeded'))
        const last = (await world().operations(id)).at(-1)
        const { state } = await fleet.get(id)
        expect(state).toBe(last?.kind === 'pause' ? 'suspended' : 'running')
        expect(provider.instancesOf(id)).toMatchObject([{ state }])
      },
    )
  },
  { patience: IMPATIENT },
)
