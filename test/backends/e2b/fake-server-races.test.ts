import { Sandbox } from 'e2b'
import { expect, test } from 'vitest'
import { apiError } from '../../support/e2b/faults.ts'
import { failure, setup, startCounting, stateOf } from './fake-setup.ts'

test('those who pause at once are all told that it worked, and later ones that it is paused', async () => {
  const { e2b, create, info, listAll } = await setup()
  const sandbox = await create()
  const id = sandbox.sandboxId
  const held = e2b.holdWhile('pausing')
  const pauses = [sandbox.pause(), sandbox.pause()]
  await held.entered(1)
  await expect.poll(() => e2b.count('pause')).toBe(2)
  expect(await info(id)).toMatchObject({ state: 'paused' })
  expect(await listAll()).toMatchObject([{ sandboxId: id, state: 'paused' }])
  expect(await sandbox.isRunning()).toBe(false)
  expect(await failure(sandbox.setTimeout(1_000))).toBe(`SandboxError: 409: Sandbox "${id}" is being paused`)
  expect(await failure(sandbox.createSnapshot())).toContain(`cannot be snapshotted while in 'pausing' state`)
  held.open()
  expect(await Promise.all(pauses)).toEqual([true, true])
  expect([held.entries, await sandbox.pause()]).toEqual([1, false])
})

test('whoever connects to one that is being paused waits, and resumes it', async () => {
  const { e2b, create } = await setup()
  const sandbox = await create()
  const held = e2b.holdWhile('pausing')
  const paused = sandbox.pause()
  await held.entered(1)
  const connected = sandbox.connect()
  await expect.poll(() => e2b.count('connect')).toBe(1)
  held.open()
  expect(await paused).toBe(true)
  await connected
  expect(e2b.requests.find(({ route }) => route === 'connect')).toMatchObject({ status: 201 })
  expect(e2b.stateOf(sandbox.sandboxId)).toBe('running')
})

test('those who connect at once share one start', async () => {
  const { e2b, create, info } = await setup()
  const sandbox = await create()
  await sandbox.pause()
  const held = e2b.holdWhile('resuming')
  const connects = [sandbox.connect(), sandbox.connect()]
  await held.entered(1)
  await expect.poll(() => e2b.count('connect')).toBe(2)
  expect(await info(sandbox.sandboxId)).toMatchObject({ state: 'paused' })
  held.open()
  await Promise.all(connects)
  const answers = e2b.requests.filter(({ route }) => route === 'connect').map(({ status }) => status)
  expect([held.entries, answers]).toEqual([1, [201, 201]])
})

test('a kill waits for a pause, and deletes what that has left', async () => {
  const { e2b, create } = await setup()
  const sandbox = await create()
  const held = e2b.holdWhile('pausing')
  const paused = sandbox.pause()
  await held.entered(1)
  const killed = sandbox.kill()
  await expect.poll(() => e2b.count('kill')).toBe(1)
  held.open()
  expect([await paused, await killed, e2b.stateOf(sandbox.sandboxId)]).toEqual([true, true, undefined])
})

test('a kill that waited for a pause that failed fails, and works the next time', async () => {
  const { e2b, create, info } = await setup()
  const sandbox = await create()
  const counting = await startCounting(sandbox)
  e2b.next('pause', { kind: 'lost' })
  const held = e2b.holdWhile('pausing')
  const paused = failure(sandbox.pause())
  await held.entered(1)
  const killed = failure(sandbox.kill())
  await expect.poll(() => e2b.count('kill')).toBe(1)
  held.open()
  expect(await paused).toBe('SandboxError: 500: Error pausing sandbox')
  expect(await killed).toContain('SandboxError: 500: Error killing sandbox')
  expect(stateOf(counting.pid)).toBeUndefined()
  expect(await failure(info(sandbox.sandboxId))).toContain('SandboxNotFoundError')
  expect([await sandbox.kill(), await sandbox.kill()]).toEqual([true, false])
})

test('one that is being killed is gone for all but those who kill it', async () => {
  const { e2b, create, info, listAll } = await setup()
  const sandbox = await create()
  const held = e2b.holdWhile('killing')
  const kills = [sandbox.kill(), sandbox.kill()]
  await held.entered(1)
  await expect.poll(() => e2b.count('kill')).toBe(2)
  expect(await failure(info(sandbox.sandboxId))).toContain('SandboxNotFoundError')
  expect(await failure(sandbox.pause())).toContain('SandboxNotFoundError')
  expect(await failure(sandbox.connect())).toContain('409')
  expect(await listAll()).toEqual([])
  held.open()
  expect(await Promise.all(kills)).toEqual([true, true])
})

test('a kill while it is being resumed says that it worked, and leaves it running', async () => {
  const { e2b, create } = await setup()
  const sandbox = await create()
  await sandbox.pause()
  const held = e2b.holdWhile('resuming')
  const connected = sandbox.connect()
  await held.entered(1)
  expect(await sandbox.kill()).toBe(true)
  held.open()
  await connected
  expect(e2b.stateOf(sandbox.sandboxId)).toBe('running')
})

test('one that is being copied runs, is missing from the list, or is there as it was paused last', async () => {
  const { e2b, create, info, listAll } = await setup()
  const [never, once] = [await create(), await create()]
  await once.pause()
  const { startedAt } = await info(once.sandboxId)
  await once.connect()
  const held = e2b.holdWhile('snapshotting')
  const copies = [never.createSnapshot(), once.createSnapshot()]
  await held.entered(2)
  expect(await listAll()).toMatchObject([{ sandboxId: once.sandboxId, state: 'paused', startedAt }])
  expect(await info(never.sandboxId)).toMatchObject({ state: 'running' })
  expect(await failure(never.createSnapshot())).toContain(`cannot be snapshotted while in 'snapshotting' state`)
  expect(await failure(never.setTimeout(1_000))).toContain('is being snapshotted')
  const [paused, killed, health] = [never.pause(), once.kill(), never.isRunning()]
  await expect.poll(() => [e2b.count('pause'), e2b.count('kill'), e2b.count('health')]).toEqual([2, 1, 1])
  held.open()
  expect((await Promise.all(copies)).length).toBe(2)
  expect([await paused, await killed]).toEqual([true, true])
  expect(typeof (await health)).toBe('boolean')
  expect([e2b.stateOf(never.sandboxId), e2b.stateOf(once.sandboxId)]).toEqual(['paused', undefined])
})

test('a call can be held before it is done, or before it is answered', async () => {
  const { e2b, at, create, listAll } = await setup()
  const before = e2b.holdOnceAt('create')
  const held = create()
  await before.entered(1)
  const other = await create()
  expect((await listAll()).map(({ sandboxId }) => sandboxId)).toEqual([other.sandboxId])
  before.open()
  const { sandboxId } = await held
  const after = e2b.holdAnswersOf('pause')
  const paused = Sandbox.pause(sandboxId, at)
  await after.entered(1)
  expect(e2b.stateOf(sandboxId)).toBe('paused')
  after.open()
  expect(await paused).toBe(true)
  e2b.next('kill', apiError(409, 'one time only'))
  expect(await failure(Sandbox.kill(sandboxId, at))).toContain('409: one time only')
})
