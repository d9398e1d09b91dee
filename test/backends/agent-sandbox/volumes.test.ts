import { expect, test } from 'vitest'
import { failure, openFleet, serving } from './setup.ts'

const kubernetes = await serving(['v1beta1'])
const claimOf = (name: string) => `workspace-${name}`

/** Nothing uses it any more, so it goes at once; and its controller makes another one, which is empty. */
async function replaceVolume(fleet: Awaited<ReturnType<typeof openFleet>>, name: string): Promise<void> {
  const { uid } = kubernetes.get('persistentvolumeclaims', claimOf(name))?.metadata ?? {}
  await fleet.delete('persistentvolumeclaims', claimOf(name))
  await kubernetes.when('persistentvolumeclaims', claimOf(name), (one) => one !== undefined && one.metadata.uid !== uid)
}

test('a volume that was deleted while it slept is missing, also when its controller has made another one', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  await replaceVolume(fleet, target.name)
  expect(await fleet.verify(checkpointRef)).toMatchObject({
    is: 'missing',
    why: expect.stringContaining('is another one than'),
  })
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({
    type: 'checkpoint_missing',
    message: expect.stringContaining(claimOf(target.name)),
  })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'suspended' })
})

test('so is one of a sandbox whose pod has ended by itself, and that nobody has put to sleep', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create({ agent: { command: ['sleep', '1000'] } })
  await kubernetes.evict(target.name)
  await replaceVolume(fleet, target.name)
  const checkpointRef = `${target.ref}@${target.incarnation}`
  expect(await fleet.verify(checkpointRef)).toMatchObject({ is: 'missing' })
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({ type: 'checkpoint_missing' })
})

test('one whose volume would be gone with its pod is not put to sleep, and runs on', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  await fleet.delete('persistentvolumeclaims', claimOf(target.name))
  expect(kubernetes.get('persistentvolumeclaims', claimOf(target.name))?.metadata.deletionTimestamp).toBeDefined()
  expect(await failure(fleet.suspend(target))).toMatchObject({
    type: 'checkpoint_missing',
    message: expect.stringContaining('would have nothing to sleep on'),
  })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: target.incarnation })
})

test('a claim that has lost its volume is a checkpoint that is not whole', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  const claim = kubernetes.get('persistentvolumeclaims', claimOf(target.name))
  if (!claim) return expect.unreachable()
  kubernetes.cluster.store.change('persistentvolumeclaims', claim, (draft) => {
    draft.status = { ...draft.status, phase: 'Lost' }
  })
  expect(await fleet.verify(checkpointRef)).toMatchObject({ is: 'corrupt' })
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({ type: 'checkpoint_corrupt' })
})

test('a volume claim that somebody on the way knows nothing of is not missing', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  kubernetes.failNext({ resource: 'persistentvolumeclaims' }, { status: 404, body: 'not here', type: 'text/plain' })
  expect(await failure(fleet.verify(checkpointRef))).toMatchObject({ type: 'sandbox_unreachable' })
  expect(await fleet.verify(checkpointRef)).toEqual({ is: 'ready' })
})

test.each([
  ['no volume', {}],
  ['none but its pod has', { volumes: [{ name: 'files', emptyDir: {} }] }],
])(
  'one that somebody has made with %s is not put to sleep, and runs on: nothing of it would be left',
  async (_, more) => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.adopt(more)
    expect(await failure(fleet.suspend(target))).toMatchObject({
      type: 'checkpoint_missing',
      message: expect.stringContaining('has no volume'),
    })
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: target.incarnation })
    await kubernetes.evict(target.name)
    expect(await fleet.verify(`${target.ref}@${target.incarnation}`)).toMatchObject({ is: 'missing' })
  },
)

test('one whose files are on a volume that was there before it is', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.adopt({ volumes: [{ name: 'files', nfs: { server: 'files.example.com', path: '/' } }] })
  expect(await fleet.verify(await fleet.suspend(target))).toEqual({ is: 'ready' })
})
