import { Sandbox } from 'e2b'
import { expect, test } from 'vitest'
import { apiError, GATEWAY } from '../../support/e2b/faults.ts'
import { CALL, fails, IDLING, KEY, OWNER, setup, wanted } from './setup.ts'

const ASKED = { key: `op_${'5'.repeat(26)}`, name: 'before lunch' }

test('a name says whose a snapshot is, and others are not listed', async () => {
  const { e2b, backend, snapshots, open, create } = await setup({ fleet: 'Fleet.of-Ours' })
  const target = await create()
  const { checkpointRef } = await snapshots.take(target, ASKED, CALL)
  expect(checkpointRef).toMatch(/^team\/sandman-[0-9a-f]{12}-sbx_a+-op_5+:default$/)
  await Sandbox.createSnapshot(target.ref, e2b.connection)
  await Sandbox.createSnapshot(target.ref, { ...e2b.connection, name: 'sandman-lookalike' })
  const { checkpoints } = backend.lists
  if (checkpoints === 'none') return expect.unreachable()
  const listed = { ref: checkpointRef, sandboxId: OWNER.sandboxId, kind: 'snapshot' }
  expect(await checkpoints(undefined, CALL)).toEqual({ items: [listed], next: undefined })
  const other = (await open({ fleet: 'other' })).lists.checkpoints
  expect(other !== 'none' && (await other(undefined, CALL)).items).toEqual([])
})

test('one that was taken, and whose answer was lost, is not taken again', async () => {
  const { e2b, snapshots, create } = await setup()
  const target = await create()
  e2b.next('snapshot', { kind: 'cut', performed: true })
  await expect(snapshots.take(target, ASKED, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  const { checkpointRef } = await snapshots.take(target, ASKED, CALL)
  expect(e2b.count('snapshot')).toBe(1)
  expect(await snapshots.verify(checkpointRef, CALL)).toEqual({ is: 'ready' })
})

test('one that is only said to be taken is missing', async () => {
  const { e2b, snapshots, create } = await setup()
  const target = await create()
  e2b.next('snapshot', { kind: 'lie' })
  const { checkpointRef } = await snapshots.take(target, ASKED, CALL)
  expect(await snapshots.verify(checkpointRef, CALL)).toMatchObject({ is: 'missing' })
})

test('that a list is empty once does not make one missing', async () => {
  const { e2b, snapshots, create } = await setup()
  const { checkpointRef } = await snapshots.take(await create(), ASKED, CALL)
  e2b.next('listSnapshots', { kind: 'list', shows: () => [] })
  expect(await snapshots.verify(checkpointRef, CALL)).toEqual({ is: 'ready' })
  e2b.next('listSnapshots', GATEWAY.plain404)
  await expect(snapshots.verify(checkpointRef, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
})

test('none is taken while another one is, or of what went to sleep meanwhile', async () => {
  const { e2b, snapshots, pausing, create } = await setup()
  const target = await create()
  e2b.next('snapshot', apiError(409, `Sandbox '${target.ref}' cannot be snapshotted while in 'snapshotting' state`))
  await expect(snapshots.take(target, ASKED, CALL)).rejects.toMatchObject(fails('sandbox_unreachable', 'snapshotting'))
  const arriving = e2b.holdOnceAt('snapshot')
  const late = snapshots.take(target, ASKED, CALL)
  await arriving.entered(1)
  await pausing.suspend(target, { key: 'op_p' }, CALL)
  arriving.open()
  await expect(late).rejects.toMatchObject(fails('overtaken', 'it sleeps'))
})

test('one that is in use is not deleted, and that is said', async () => {
  const { backend, snapshots, create } = await setup()
  const { checkpointRef } = await snapshots.take(await create(), ASKED, CALL)
  const copy = await create({}, { life: 'op_2', checkpointRef })
  await expect(snapshots.discard(checkpointRef, CALL)).rejects.toMatchObject(fails('in_use', 'in use'))
  await backend.end(copy, CALL)
  await snapshots.discard(checkpointRef, CALL)
  await snapshots.discard(checkpointRef, CALL)
  expect(await snapshots.verify(checkpointRef, CALL)).toMatchObject({ is: 'missing' })
})

test('what this fleet has not taken it does not delete', async () => {
  const { e2b, snapshots, create } = await setup()
  const { snapshotId } = await Sandbox.createSnapshot((await create()).ref, e2b.connection)
  expect(await snapshots.verify(snapshotId, CALL)).toEqual({ is: 'ready' })
  await expect(snapshots.discard(snapshotId, CALL)).rejects.toMatchObject(fails('spec_invalid', snapshotId))
  expect(e2b.count('deleteSnapshot')).toBe(0)
})

test('of one that was adopted they can be taken and deleted, and are in no list', async () => {
  const { backend, snapshots, createElsewhere } = await setup()
  const target = await createElsewhere()
  const { checkpointRef } = await snapshots.take(target, ASKED, CALL)
  expect(await snapshots.take(target, ASKED, CALL)).toEqual({ checkpointRef })
  const { checkpoints } = backend.lists
  expect(checkpoints !== 'none' && (await checkpoints(undefined, CALL)).items).toEqual([])
  await snapshots.discard(checkpointRef, CALL)
  expect(await snapshots.verify(checkpointRef, CALL)).toMatchObject({ is: 'missing' })
})

test('a pause is not what another sandbox can begin as, nor is a snapshot that there is not', async () => {
  const { e2b, backend, pausing, create } = await setup()
  const { checkpointRef } = await pausing.suspend(await create(), { key: 'op_p' }, CALL)
  const made = e2b.count('create')
  const fromPause = backend.create(wanted({}, { life: 'op_2', checkpointRef }), CALL)
  await expect(fromPause).rejects.toMatchObject(fails('spec_invalid', 'only a snapshot'))
  expect(e2b.count('create')).toBe(made)
  const fromNothing = backend.create(wanted({}, { life: 'op_2', checkpointRef: 'team/gone:default' }), CALL)
  await expect(fromNothing).rejects.toMatchObject(fails('checkpoint_missing', 'team/gone:default'))
})

test('a copy has an agent of its own, and none of its original', async () => {
  const { backend, snapshots, create, start } = await setup()
  const original = await create({ agent: { command: IDLING } })
  await start(original, IDLING)
  const { checkpointRef } = await snapshots.take(original, ASKED, CALL)
  const copy = await create({ agent: { command: IDLING } }, { life: 'op_2', checkpointRef })
  expect(await backend.agentStatus({ ...copy, key: undefined }, CALL)).toEqual({ is: 'running' })
  expect(await backend.agentStatus({ ...copy, key: KEY }, CALL)).toEqual({ is: 'none' })
  for (const key of [undefined, KEY])
    expect(await backend.agentStatus({ ...original, key }, CALL)).toEqual({ is: 'running' })
  expect(await backend.run(copy, 'ls .sandman', CALL)).toMatchObject({ output: `${copy.ref}\n` })
})
