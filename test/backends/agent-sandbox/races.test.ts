import { expect, test } from 'vitest'
import { call, failure, newId, openFleet, SANDBOXES, serving } from './setup.ts'

const kubernetes = await serving(['v1beta1'])

test('an end that was meant for what sleeps does not hit what is resumed between its look and its delete (incident Q)', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  const deleting = kubernetes.holdOnceAt('delete sandboxes')
  const ending = failure(fleet.end(target.ref, null))
  await deleting.entered(1)
  const awake = await fleet.resume(target.ref, checkpointRef)
  deleting.open()
  expect(await ending).toMatchObject({ type: 'overtaken' })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: awake.incarnation })
})

test('nor what sleeps because its pod has ended, and is given another one', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create({ agent: { command: ['sleep', '1000'] } })
  await kubernetes.evict(target.name)
  const deleting = kubernetes.holdOnceAt('delete sandboxes')
  const ending = failure(fleet.end(target.ref, null))
  await deleting.entered(1)
  // The wish is written down before its pod is touched, and its controller has written nothing yet.
  const telling = kubernetes.holdController('write status')
  const resuming = fleet.resume(target.ref, `${target.ref}@${target.incarnation}`)
  await fleet.replaced(target.name, target.incarnation)
  deleting.open()
  expect(await ending).toMatchObject({ type: 'overtaken' })
  telling.open()
  await resuming
})

test('an end that was meant for what runs does not hit what sleeps by then', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const deleting = kubernetes.holdOnceAt('delete sandboxes')
  const ending = failure(fleet.end(target.ref, target.incarnation))
  await deleting.entered(1)
  const checkpointRef = await fleet.suspend(target)
  deleting.open()
  expect(await ending).toMatchObject({ type: 'overtaken' })
  expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
})

test('a pause that was meant for what ran before does not hit what was resumed meanwhile', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const patching = kubernetes.holdOnceAt('patch sandboxes')
  const late = failure(fleet.suspend(target))
  await patching.entered(1)
  const awake = await fleet.resume(target.ref, await fleet.suspend(target))
  patching.open()
  expect(await late).toMatchObject({ type: 'overtaken' })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: awake.incarnation })
})

test('a pause that waits for its end, while somebody wakes it again, was overtaken', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const removing = kubernetes.holdController('delete pod')
  const pausing = failure(fleet.suspend(target))
  await removing.entered(1)
  await fleet.patch(target.name, { spec: { operatingMode: 'Running' } })
  expect(await pausing).toMatchObject({ type: 'overtaken', message: expect.stringContaining('somebody has woken it') })
  removing.open()
})

const CONFLICT = {
  status: 409,
  body: { kind: 'Status', status: 'Failure', reason: 'Conflict', message: 'the object has been modified', code: 409 },
} as const

test('a change that somebody else has made meanwhile is looked at, and what was asked for is done all the same', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const change = { verb: 'patch', resource: 'sandboxes' }
  kubernetes.failNext(change, CONFLICT, 3)
  const checkpointRef = await fleet.suspend(target)
  kubernetes.failNext(change, CONFLICT, 3)
  await fleet.resume(target.ref, checkpointRef)
  kubernetes.failNext(change, CONFLICT, 3)
  await fleet.backend.adopt(target.ref, { sandboxId: newId('sbx'), life: newId('op') }, call())
  kubernetes.failNext({ verb: 'delete', resource: 'sandboxes' }, CONFLICT, 3)
  const { incarnation } = await fleet.awake(target.ref)
  await fleet.end(target.ref, incarnation)
  expect(await fleet.look(target.ref)).toEqual({ is: 'absent' })
})

test('one that is changed by others again and again is given up after a while, as it is', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const storm = () => kubernetes.failNext({ resource: 'sandboxes', method: 'PATCH' }, CONFLICT, 1_000)
  const again = { type: 'sandbox_unreachable', message: expect.stringContaining('again and again') }
  storm()
  expect(await failure(fleet.suspend(target))).toMatchObject(again)
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: target.incarnation })
  kubernetes.heal()
  const checkpointRef = await fleet.suspend(target)
  storm()
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject(again)
  expect(await failure(fleet.backend.adopt(target.ref, { sandboxId: 'sbx_a', life: 'op_a' }, call()))).toMatchObject(
    again,
  )
  kubernetes.heal()
  kubernetes.failNext({ resource: 'sandboxes', method: 'DELETE' }, CONFLICT, 1_000)
  expect(await failure(fleet.end(target.ref, null))).toMatchObject(again)
  expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
})

test('an image that cannot be pulled makes nothing: the resource is gone as well, whoever writes to it meanwhile', async () => {
  const fleet = await openFleet(kubernetes)
  const wanted = fleet.wanted({ template: 'no-such-image' })
  kubernetes.failNext({ resource: 'sandboxes', method: 'DELETE' }, CONFLICT, 3)
  expect(await failure(fleet.backend.create(wanted, call()))).toMatchObject({ type: 'spec_invalid' })
  expect(await fleet.backend.find(wanted.sandboxId, call())).toEqual([])
  const ours = kubernetes.list(SANDBOXES).filter(({ metadata }) => metadata.labels?.['sandman.fleet'] === fleet.name)
  expect(ours).toEqual([])
})

test('one that has run is not deleted by a late call to make it, whose image is not there any more', async () => {
  const fleet = await openFleet(kubernetes)
  const wanted = fleet.wanted({ template: 'soon-forgotten' })
  const { images } = kubernetes.cluster.options
  images.add('soon-forgotten')
  const { ref } = await fleet.backend.create(wanted, call())
  const { name, incarnation } = await fleet.awake(ref)
  images.delete('soon-forgotten')
  await fleet.delete('pods', name)
  await kubernetes.when('pods', name, (pod) => pod !== undefined && pod.metadata.uid !== incarnation)
  expect(await failure(fleet.backend.create(wanted, call()))).toMatchObject({ type: 'sandbox_unreachable' })
  expect(await fleet.look(ref)).toMatchObject({ is: 'changing' })
  expect(kubernetes.get('persistentvolumeclaims', `workspace-${name}`)?.metadata.deletionTimestamp).toBeUndefined()
})

test('what has ended has left nothing: neither its pod nor its volume', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  await fleet.suspend(target)
  await fleet.end(target.ref, null)
  expect(kubernetes.get('pods', target.name)).toBeUndefined()
  expect(kubernetes.get('persistentvolumeclaims', `workspace-${target.name}`)).toBeUndefined()
})
