import { expect, test } from 'vitest'
import { conditionOf, type KubeObject } from '../../support/kubernetes/objects.ts'
import { ORIGIN_POD, SNAPSHOTS, TRIGGERS } from '../../support/kubernetes/pod-snapshots.ts'
import { type Awake, call, type Fleet, failure, newId, openFleet, SANDBOXES, serving } from './setup.ts'

const kubernetes = await serving(['v1beta1'], { podSnapshots: true })
const NAME = 'podsnapshot.gke.io/ps-name'

async function setup(): Promise<Fleet> {
  kubernetes.snapshots.heal()
  return openFleet(kubernetes)
}

/** Of this sandbox. */
const ofTarget = (resource: string, { ref }: Awake) =>
  kubernetes.list(resource).filter(({ metadata }) => metadata.annotations?.['sandman.ref'] === ref)
const snapshotOf = (checkpointRef: string) => checkpointRef.split('@snapshot:')[1] as string
type Template = { metadata?: { annotations?: Record<string, string> } }
const templateOf = ({ spec }: KubeObject) => (spec?.podTemplate as Template | undefined)?.metadata?.annotations?.[NAME]

async function listed({ backend }: Fleet): Promise<string[]> {
  const { checkpoints } = backend.lists
  if (checkpoints === 'none') return expect.unreachable()
  const refs: string[] = []
  for (let cursor: string | undefined, page = 0; page === 0 || cursor !== undefined; page++) {
    const { items, next } = await checkpoints(cursor, call())
    refs.push(...items.map(({ ref }) => ref))
    cursor = next
  }
  return refs
}

/** Whoever asks for a pause gives up as soon as it has come to this. */
async function giveUp(fleet: Fleet, target: Awake, when: () => Promise<unknown>): Promise<void> {
  const giving = new AbortController()
  const pausing = fleet.pausing.suspend(target, { key: newId('op') }, { signal: giving.signal })
  pausing.catch(() => {})
  await when()
  giving.abort(new Error('given up'))
  await expect(pausing).rejects.toThrow('given up')
}

test('the cluster serves pod snapshots, so a pause keeps the memory, in a checkpoint with a name of its own', async () => {
  const fleet = await setup()
  expect(fleet.pausing).toMatchObject({ preserves: 'memory', consumesCheckpoint: false, needsCheckpoint: true })
  const target = await fleet.create()
  await fleet.run(target, 'exec sleep 1000 >/dev/null 2>&1 & echo $! > pid')
  const checkpointRef = await fleet.suspend(target)
  expect(await listed(fleet)).toEqual([checkpointRef])
  const awake = await fleet.resume(target.ref, checkpointRef)
  expect(await fleet.run(awake, 'kill -0 $(cat pid) && echo alive')).toBe('alive\n')
  await fleet.pausing.discard(checkpointRef, call())
  expect(await listed(fleet)).toEqual([])
  for (const resource of [SNAPSHOTS, TRIGGERS]) expect(kubernetes.list(resource)).toEqual([])
})

test('memory that cannot be written down is said, nothing is left of the attempt, and it runs on', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  kubernetes.snapshots.fail('trigger')
  expect(await failure(fleet.suspend(target))).toMatchObject({
    type: 'sandbox_unreachable',
    message: expect.stringContaining('runsc checkpoint failed'),
  })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: target.incarnation })
  expect(ofTarget(TRIGGERS, target)).toEqual([])
  kubernetes.snapshots.heal()
  await fleet.suspend(target)
})

test('a pause that is given up while it is written down leaves something that is listed, is no checkpoint, and can be discarded', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const taking = kubernetes.holdController('checkpoint')
  await giveUp(fleet, target, () => taking.entered(1))
  const [left] = await listed(fleet)
  expect(left).toMatch(/@trigger:/)
  expect(await fleet.verify(left as string)).toEqual({ is: 'pending' })
  taking.open()
  await expect.poll(() => fleet.verify(left as string)).toMatchObject({ is: 'corrupt' })
  expect(await failure((await openFleet(kubernetes)).pausing.discard(left as string, call()))).toMatchObject({
    type: 'spec_invalid',
  })
  for (let nth = 1; nth <= 2; nth++) await fleet.pausing.discard(left as string, call())
  expect(ofTarget(TRIGGERS, target)).toEqual([])
  expect(
    kubernetes.list(SNAPSHOTS).filter(({ metadata }) => metadata.annotations?.[ORIGIN_POD] === target.name),
  ).toEqual([])
  expect(await fleet.verify(left as string)).toMatchObject({ is: 'missing' })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
})

test('a snapshot that does not arrive where it is kept ends nothing: its pod is there until it has (incident F)', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  kubernetes.snapshots.fail('lag')
  kubernetes.requests.clear()
  await giveUp(fleet, target, () =>
    expect.poll(() => kubernetes.requests.count('get', 'podsnapshots')).toBeGreaterThan(3),
  )
  expect(ofTarget(SNAPSHOTS, target).length).toBe(1)
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: target.incarnation })
  kubernetes.snapshots.heal()
})

test('it is not woken from a snapshot that is not ready, nor from one that is gone', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  const snapshot = kubernetes.get(SNAPSHOTS, snapshotOf(checkpointRef)) as KubeObject
  const say = (status: 'True' | 'False', reason: string) =>
    kubernetes.cluster.store.change(SNAPSHOTS, snapshot, (draft) => {
      draft.status = { conditions: [{ type: 'Ready', status, reason }] }
    })
  say('False', 'Uploading')
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({ type: 'sandbox_unreachable' })
  say('False', 'Failed')
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({ type: 'checkpoint_corrupt' })
  expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
  await fleet.pausing.discard(checkpointRef, call())
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({ type: 'checkpoint_missing' })
  expect(fleet.sandbox(target.name).spec?.operatingMode).toBe('Suspended')
})

test('a pod that begins anew without a word is never taken for what was restored, by nobody', {
  timeout: 30_000,
}, async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  kubernetes.snapshots.fail('restore-silently-fresh')
  const waking = failure(fleet.wake(target.ref, checkpointRef))
  await kubernetes.when(
    SANDBOXES,
    target.name,
    (one) => one !== undefined && conditionOf(one, 'Ready')?.status === 'True',
  )
  expect(await fleet.look(target.ref)).toMatchObject({
    is: 'changing',
    why: expect.stringContaining(`does not say that it was restored from ${snapshotOf(checkpointRef)}`),
  })
  expect(await waking).toMatchObject({ type: 'checkpoint_corrupt', message: expect.stringContaining('began anew') })
  // Whoever comes later sees that it still sleeps, on the same, and can put it back there.
  await expect.poll(() => fleet.look(target.ref), { timeout: 5_000 }).toEqual({ is: 'suspended', checkpointRef })
  expect(await fleet.suspend({ ref: target.ref, incarnation: 'any' })).toBe(checkpointRef)
  kubernetes.snapshots.heal()
  const awake = await fleet.resume(target.ref, checkpointRef)
  expect(conditionOf(kubernetes.get('pods', target.name) as KubeObject, 'PodRestored')?.status).toBe('True')
  expect(fleet.mark(target.name, 'root')).toBe(`${awake.incarnation} ${target.incarnation}`)
})

test('once it is proven, a pod that replaces a lost one begins anew, and does not go back', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const awake = await fleet.resume(target.ref, await fleet.suspend(target))
  expect(templateOf(fleet.sandbox(target.name))).toBeUndefined()
  await fleet.delete('pods', target.name)
  await fleet.replaced(target.name, awake.incarnation)
  expect(conditionOf(kubernetes.get('pods', target.name) as KubeObject, 'PodRestored')).toBeUndefined()
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
})

test('whoever woke it may have died before that was written down: who looks does it', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  const awake = await fleet.resume(target.ref, checkpointRef)
  const snapshot = snapshotOf(checkpointRef)
  const podTemplate = { metadata: { annotations: { [NAME]: snapshot } } }
  await fleet.patch(target.name, { metadata: { annotations: { 'sandman.restores': snapshot } }, spec: { podTemplate } })
  const isReady = (one: KubeObject | undefined) =>
    one !== undefined && conditionOf(one, 'Ready')?.observedGeneration === one.metadata.generation
  await kubernetes.when(SANDBOXES, target.name, isReady)
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: awake.incarnation })
  expect(fleet.mark(target.name, 'restores')).toBeUndefined()
  expect(templateOf(fleet.sandbox(target.name))).toBeUndefined()
})

test('what a worker has left that died between the snapshot and the pause is listed, and not slept on', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const patching = kubernetes.holdOnceAt('patch sandboxes')
  await giveUp(fleet, target, () => patching.entered(1))
  kubernetes.requests.clear()
  const [left] = await listed(fleet)
  expect(left).toMatch(/@snapshot:/)
  const checkpointRef = await fleet.suspend(target)
  expect(checkpointRef).not.toBe(left)
  expect((await listed(fleet)).toSorted()).toEqual([left as string, checkpointRef].toSorted())
  await fleet.pausing.discard(left as string, call())
  await fleet.resume(target.ref, checkpointRef)
  patching.open()
})

test('of several who put it to sleep at once, one snapshot is left', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const refs = await Promise.all([fleet.suspend(target), fleet.suspend(target), fleet.suspend(target)])
  expect(new Set(refs).size).toBe(1)
  expect(await listed(fleet)).toEqual([refs[0]])
  expect(ofTarget(TRIGGERS, target).length).toBe(1)
})

test('a pod that has ended by itself has no memory left: it sleeps on its files, and is woken from them', async () => {
  const fleet = await setup()
  const target = await fleet.create({ agent: { command: ['sleep', '1000'] } })
  await fleet.run(target, 'echo kept > kept')
  await kubernetes.evict(target.name)
  const checkpointRef = `${target.ref}@${target.incarnation}`
  expect(await fleet.suspend(target)).toBe(checkpointRef)
  expect(await listed(fleet)).toEqual([])
  expect(await fleet.run(await fleet.resume(target.ref, checkpointRef), 'cat kept')).toBe('kept\n')
})

test('a snapshot whose sandbox is gone is there, and is of no use: it can be found out, and thrown away', async () => {
  const fleet = await setup()
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  await fleet.end(target.ref, null)
  expect(await listed(fleet)).toEqual([checkpointRef])
  expect(await fleet.verify(checkpointRef)).toMatchObject({ is: 'corrupt' })
  await fleet.pausing.discard(checkpointRef, call())
  expect(await fleet.verify(checkpointRef)).toMatchObject({ is: 'missing' })
  expect(await listed(fleet)).toEqual([])
})

test('another fleet neither lists it nor discards it', async () => {
  const fleet = await setup()
  const checkpointRef = await fleet.suspend(await fleet.create())
  const other = await openFleet(kubernetes)
  expect(await listed(other)).toEqual([])
  expect(await failure(other.pausing.discard(checkpointRef, call()))).toMatchObject({ type: 'spec_invalid' })
  expect(await listed(fleet)).toEqual([checkpointRef])
})
