import { expect, test } from 'vitest'
import { describeIncident } from '../support/incident.ts'

describeIncident('F: a pause that returned before its upload had finished', (world) => {
  test('it is suspended only when the checkpoint was seen to be complete', async () => {
    const { fleet, provider } = world()
    const { id } = await world().running()
    provider.verifiesUntilReady = 3
    const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
    expect(operation).toMatchObject({ status: 'succeeded', attempt: 1 })
    expect(provider.verifiesUntilReady).toBe(0)
    expect(sandbox.checkpoint).toMatchObject({ status: 'ready', sizeBytes: 4_096, verifiedAt: expect.any(Date) })
  })

  test('an upload that never finishes does not end as suspended; once it has, the pause that waits for it does', async () => {
    const { fleet, provider } = world()
    const { id } = await world().running()
    provider.verifiesUntilReady = Number.POSITIVE_INFINITY
    const { operation } = await fleet.pause(id)
    // Every attempt has failed, and nobody can say what it will come to.
    await expect
      .poll(async () => (await world().operations(id)).at(-1)?.failures, { timeout: 50_000 })
      .toBeGreaterThan(4)
    expect(await fleet.get(id)).toMatchObject({ state: 'pausing', checkpoint: null })
    expect((await fleet.operation(operation.id)).operation).toMatchObject({
      status: 'active',
      lastError: { errorType: 'sandbox_unreachable', message: expect.stringContaining('still being written') },
    })
    provider.verifiesUntilReady = 0
    const { operation: settled, sandbox } = await fleet.operation(operation.id, { wait: '30s' })
    expect(settled).toMatchObject({ status: 'succeeded', outcome: 'done' })
    expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
  })

  test('an upload that failed leaves nothing behind, and the sandbox is not said to be suspended', async () => {
    const { fleet, provider } = world()
    const { id, providerRef } = await world().running()
    const held = provider.holdAt('verify')
    const pausing = fleet.pause(id, { wait: '30s' })
    await held.entered(1)
    const kept = provider.checkpoints.get(provider.instances.get(providerRef as string)?.checkpointRef as string)
    if (kept) kept.condition = 'missing'
    held.open()
    const { operation, sandbox } = await pausing
    expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'checkpoint_missing' } })
    expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
  })
})
