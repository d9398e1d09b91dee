import { expect, test } from 'vitest'
import { conditionOf, type Json, type KubeObject } from '../../support/kubernetes/objects.ts'
import { SNAPSHOTS, TRIGGERS } from '../../support/kubernetes/pod-snapshots.ts'
import { SANDBOXES } from '../../support/kubernetes/sandboxes.ts'
import type { FakeKubernetesOptions } from '../../support/kubernetes/server.ts'
import { as, exec, gone, running, setup as setupCluster, sh } from './fake-setup.ts'

const COUNTING = 'i=0; while :; do i=$((i+1)); echo $i; sleep 0.01; done'

async function setup(options: FakeKubernetesOptions = {}) {
  const all = await setupCluster({
    snapshotHoldMs: 60_000,
    graceScale: 5,
    serve: { sandboxes: ['v1beta1'], podSnapshots: true },
    ...options,
  })
  const { custom, namespace, cluster, core } = all
  const sandboxes = { group: 'agents.x-k8s.io', version: 'v1beta1', namespace, plural: 'sandboxes' }
  const at = { group: 'podsnapshot.gke.io', version: 'v1', namespace }
  const make = (plural: string, kind: string, name: string, spec: Json) =>
    custom.createNamespacedCustomObject({
      ...at,
      plural,
      body: { apiVersion: 'podsnapshot.gke.io/v1', kind, metadata: { name }, spec },
    }) as Promise<KubeObject>
  const counting = async (name: string) => {
    const agent = { ...sh('agent', COUNTING), volumeMounts: [{ name: 'work', mountPath: '/work' }] }
    const volumes = [{ name: 'work', emptyDir: {} }]
    const podTemplate = { metadata: { labels: { app: 'x' } }, spec: { containers: [agent], volumes } }
    await custom.createNamespacedCustomObject({
      ...sandboxes,
      body: { apiVersion: 'agents.x-k8s.io/v1beta1', kind: 'Sandbox', metadata: { name }, spec: { podTemplate } },
    })
    await running(cluster, name)
    await expect.poll(() => lastNumber(name)).toBeGreaterThan(5)
  }
  const log = (name: string) => core.readNamespacedPodLog({ name, namespace })
  const lastNumber = async (name: string) => Number((await log(name)).trim().split('\n').at(-1))
  const firstNumber = async (name: string) => {
    await expect.poll(() => log(name)).toMatch(/\n/)
    return Number((await log(name)).split('\n')[0])
  }
  let triggers = 0
  const trigger = async (targetPod: string) => {
    const name = `trigger-${++triggers}`
    await make('podsnapshotmanualtriggers', 'PodSnapshotManualTrigger', name, { targetPod })
    return (await cluster.when(
      TRIGGERS,
      name,
      (one) => one !== undefined && !!conditionOf(one, 'Triggered'),
    )) as KubeObject
  }
  const snapshot = async (targetPod: string) => {
    const { status = {} } = await trigger(targetPod)
    return (status.snapshotCreated as { name: string }).name
  }
  const patch = (name: string, spec: Json) =>
    custom.patchNamespacedCustomObject({ ...sandboxes, name, body: { spec } }, as('MergePatch'))
  const suspend = async (name: string) => {
    await patch(name, { operatingMode: 'Suspended' })
    await gone(cluster, name)
    await cluster.when(SANDBOXES, name, (one) => one !== undefined && conditionOf(one, 'Suspended')?.status === 'True')
  }
  const resume = async (name: string, from?: string) => {
    const annotations = { 'podsnapshot.gke.io/ps-name': from ?? null }
    await patch(name, { operatingMode: 'Running', podTemplate: { metadata: { annotations } } })
    return (await running(cluster, name)) as KubeObject
  }
  return { ...all, at, make, counting, firstNumber, lastNumber, trigger, snapshot, suspend, resume }
}

const restoredFrom = (pod: KubeObject) => conditionOf(pod, 'PodRestored')

test('a sandbox that sleeps with a snapshot goes on where it was', async () => {
  const { cluster, counting, snapshot, suspend, resume, firstNumber, lastNumber, config } = await setup()
  await counting('a')
  await exec(config, 'a', 'echo here > "$HOME/file"')
  const name = await snapshot('a')
  const before = await lastNumber('a')
  expect(cluster.get(SNAPSHOTS, name)?.metadata).toMatchObject({
    labels: { 'agents.x-k8s.io/sandbox-name-hash': 'e40c292c' },
    annotations: { 'podsnapshot.gke.io/origin-pod': 'a' },
  })
  await suspend('a')
  expect(cluster.snapshots.memory.has(name)).toBe(true)
  const pod = await resume('a', name)
  expect(restoredFrom(pod)).toMatchObject({ status: 'True', message: expect.stringContaining(name) })
  expect([before, before + 1]).toContain((await firstNumber('a')) - 1)
  expect((await exec(config, 'a', 'cat "$HOME/file"')).stdout).toBe('here\n')
})

test('a pod goes on after a snapshot, which then has only its files', async () => {
  const { cluster, counting, snapshot, suspend, resume, firstNumber, lastNumber } = await setup({ snapshotHoldMs: 50 })
  await counting('a')
  const { uid } = cluster.get('pods', 'a')?.metadata ?? {}
  const name = await snapshot('a')
  const before = await lastNumber('a')
  await expect.poll(() => lastNumber('a')).toBeGreaterThan(before + 5)
  expect(cluster.get('pods', 'a')?.metadata.uid).toBe(uid)
  await suspend('a')
  expect(cluster.snapshots.memory.has(name)).toBe(false)
  expect(restoredFrom(await resume('a', name))).toMatchObject({ status: 'True' })
  expect(await firstNumber('a')).toBe(1)
})

test('a command wakes a pod of which a snapshot was just taken', async () => {
  const { counting, snapshot, lastNumber, config } = await setup({ snapshotHoldMs: 60_000 })
  await counting('a')
  await snapshot('a')
  const before = await lastNumber('a')
  await exec(config, 'a', 'true')
  await expect.poll(() => lastNumber('a')).toBeGreaterThan(before + 5)
})

test('a policy lets pods begin from the last snapshot of their own, and keeps only some', async () => {
  const { cluster, counting, snapshot, suspend, resume, make, firstNumber } = await setup()
  const groupByLabelValue = { groupRetentionPolicy: { maxSnapshotCountPerGroup: 2 } }
  await make('podsnapshotpolicies', 'PodSnapshotPolicy', 'p', {
    selector: { matchLabels: { app: 'x' } },
    snapshotGroupingRules: { groupByLabelValue },
  })
  await counting('a')
  await counting('b')
  const others = await snapshot('b')
  const taken = [await snapshot('a'), await snapshot('a'), await snapshot('a')]
  expect(cluster.list(SNAPSHOTS).map(({ metadata }) => metadata.name)).toEqual([...taken.slice(1), others].toSorted())
  await suspend('a')
  expect(restoredFrom(await resume('a'))?.message).toContain(taken[2])
  await suspend('a')
  // Another one's is none of its business.
  expect(restoredFrom(await resume('a', others))).toBeUndefined()
  expect(await firstNumber('a')).toBe(1)
})

test('snapshots fail, are late, and are not begun from, without a word', async () => {
  const { cluster, counting, trigger, snapshot, suspend, resume } = await setup()
  expect(conditionOf(await trigger('nobody'), 'Triggered')).toMatchObject({ status: 'False', reason: 'Failed' })
  await counting('a')
  cluster.snapshots.fail('trigger')
  expect(conditionOf(await trigger('a'), 'Triggered')).toMatchObject({ status: 'False', reason: 'Failed' })
  cluster.snapshots.heal()
  cluster.snapshots.fail('lag')
  const name = await snapshot('a')
  const ready = () => conditionOf(cluster.get(SNAPSHOTS, name) as KubeObject, 'Ready')?.status
  expect(ready()).toBe('False')
  cluster.snapshots.heal()
  expect(ready()).toBe('True')
  await suspend('a')
  cluster.snapshots.fail('restore-silently-fresh')
  expect(restoredFrom(await resume('a', name))).toBeUndefined()
})

test('a snapshot that is deleted takes what it has along', async () => {
  const { cluster, counting, snapshot, suspend, resume, custom, at } = await setup()
  await counting('a')
  const name = await snapshot('a')
  await suspend('a')
  await custom.deleteNamespacedCustomObject({ ...at, plural: 'podsnapshots', name })
  expect(cluster.snapshots.memory.has(name)).toBe(false)
  expect(restoredFrom(await resume('a', name))).toBeUndefined()
})
