import { expect, test } from 'vitest'
import { TRIGGERS } from '../../support/kubernetes/pod-snapshots.ts'
import { failure, openFleet, serving } from './setup.ts'

const kubernetes = await serving(['v1beta1'], { podSnapshots: true })

test('a pod that is ready and does not say what it was restored from has begun anew, and that is no success', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  kubernetes.snapshots.fail('restore-silently-fresh')
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({ type: 'checkpoint_corrupt' })
  expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
  kubernetes.snapshots.heal()
}, 30_000)

test('a memory that is not written down leaves its sandbox awake, and nothing behind', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  kubernetes.snapshots.fail('trigger')
  expect(await failure(fleet.suspend(target))).toMatchObject({ type: 'sandbox_unreachable' })
  kubernetes.snapshots.heal()
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: target.incarnation })
  const left = kubernetes.list(TRIGGERS).filter(({ metadata }) => metadata.annotations?.['sandman.ref'] === target.ref)
  expect(left).toEqual([])
})
