import { expect, test } from 'vitest'
import type { Backend, Pausing } from '../../src/backends/backend.ts'
import { describeIncident } from '../support/describe-world.ts'

describeIncident('B: pause that deletes, resume that does nothing', (world) => {
  test('a backend that cannot pause is not asked to: the request is refused, and the sandbox keeps running', async () => {
    const { fleet, provider } = world()
    const { id, providerRef } = await world().running({ backend: 'plain' })
    const before = provider.performed.length
    const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
    expect(operation).toMatchObject({ status: 'refused', error: { errorType: 'pause_unsupported', retryable: false } })
    expect(sandbox.state).toBe('running')
    expect(provider.performed.length).toBe(before)
    expect(provider.instances.get(providerRef as string)?.state).toBe('running')
  })

  test('it is ended instead only when the caller says so, and is never suspended', async () => {
    const { fleet, provider } = world()
    const { id } = await world().running({ backend: 'plain' })
    const { operation, sandbox } = await fleet.pause(id, { ifUnsupported: 'kill', wait: '30s' })
    expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
    expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'pause_unsupported', checkpoint: null })
    expect(provider.instancesOf(id)).toEqual([])
    const states = (await fleet.events(id)).items.map(({ to }) => to)
    expect(states).toEqual(['provisioning', 'running', 'killing', 'gone'])
  })

  test('a resume that finds nothing is told so once, and not for ever', async () => {
    const { fleet, provider } = world()
    const { id, providerRef } = await world().suspended({ agentThreadId: 'thread-1' })
    provider.instances.delete(providerRef as string)
    const first = await fleet.resume(id, { wait: '30s' })
    expect(first.operation).toMatchObject({
      status: 'failed',
      error: { errorType: 'sandbox_expired', retryable: false },
    })
    expect(first.sandbox).toMatchObject({ state: 'gone', goneReason: 'expired' })
    const second = await fleet.resume(id, { wait: '30s' })
    expect(second.operation).toMatchObject({ status: 'refused', error: { errorType: 'sandbox_gone' } })
  })

  test('it falls through to a fresh sandbox under the same id when the caller allows it, without the old thread', async () => {
    const { fleet, provider } = world()
    const { id, providerRef, incarnation } = await world().suspended({
      agentThreadId: 'thread-1',
      metadata: { user: 7 },
    })
    provider.instances.delete(providerRef as string)
    const { operation, sandbox } = await fleet.resume(id, { ifLost: 'respawn', wait: '30s' })
    expect(operation).toMatchObject({ status: 'succeeded', outcome: 'respawned' })
    expect(sandbox).toMatchObject({
      id,
      state: 'running',
      agentThreadId: null,
      checkpoint: null,
      metadata: { user: 7 },
    })
    expect([sandbox.providerRef, sandbox.incarnation]).not.toEqual([providerRef, incarnation])
    expect(provider.instancesOf(id)).toMatchObject([{ ref: sandbox.providerRef, life: operation.id }])
  })

  test('so does one that has been gone for long', async () => {
    const { fleet, provider } = world()
    const { id } = await world().running({ agentThreadId: 'thread-1' })
    await fleet.kill(id, { wait: '30s' })
    const { operation, sandbox } = await fleet.resume(id, { ifLost: 'respawn', wait: '30s' })
    expect(operation).toMatchObject({ status: 'succeeded', outcome: 'respawned' })
    expect(sandbox).toMatchObject({ id, state: 'running', agentThreadId: null })
    expect(provider.instancesOf(id).length).toBe(1)
  })

  test('what kept an earlier life alive is ended when it is replaced, so that two never answer to one id', async () => {
    const { fleet, provider } = world()
    const { id, checkpoint } = await world().suspended()
    const kept = provider.checkpoints.get(checkpoint?.providerRef as string)
    if (kept) kept.condition = 'corrupt'
    const { sandbox } = await fleet.resume(id, { ifLost: 'respawn', wait: '30s' })
    expect(provider.instancesOf(id).map(({ ref }) => ref)).toEqual([sandbox.providerRef])
  })
})

test('a backend without pause has no method to call: the compiler says so', () => {
  const backend = { pausing: 'none' } as Pick<Backend, 'pausing'>
  // @ts-expect-error what may be 'none' has no suspend
  expect(() => backend.pausing.suspend()).toThrow()
  if (backend.pausing !== 'none') backend.pausing satisfies Pausing
})
