import { existsSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Json, KubeObject } from '../../support/kubernetes/objects.ts'
import { SANDBOXES } from '../../support/kubernetes/sandboxes.ts'
import type { FakeKubernetesOptions } from '../../support/kubernetes/server.ts'
import { as, gone, refusal, setup as setupCluster, sh } from './fake-setup.ts'
import { said } from './runtime-setup.ts'

type Version = 'v1beta1' | 'v1alpha1'

async function setup(options: FakeKubernetesOptions = {}, version: Version = 'v1beta1') {
  const all = await setupCluster({ graceScale: 5, serve: { sandboxes: [version] }, ...options })
  const { custom, namespace, cluster } = all
  const at = { group: 'agents.x-k8s.io', version, namespace, plural: 'sandboxes' }
  const spec = (more: Json = {}): Json => ({
    podTemplate: {
      metadata: { labels: { app: 'x' } },
      spec: { restartPolicy: 'Never', containers: [sh('agent', 'sleep 1000')] },
    },
    ...more,
  })
  const create = (name: string, more: Json = {}, metadata: Json = {}) => {
    const body = {
      apiVersion: `${at.group}/${version}`,
      kind: 'Sandbox',
      metadata: { name, ...metadata },
      spec: spec(more),
    }
    return custom.createNamespacedCustomObject({ ...at, body }) as Promise<KubeObject>
  }
  const patch = (name: string, body: Json) =>
    custom.patchNamespacedCustomObject({ ...at, name, body }, as('MergePatch')) as Promise<KubeObject>
  const read = (name: string) => custom.getNamespacedCustomObject({ ...at, name }) as Promise<KubeObject>
  const remove = (name: string, more: { propagationPolicy?: string } = {}) =>
    custom.deleteNamespacedCustomObject({ ...at, name, ...more }) as Promise<Json>
  const when = (name: string, wanted: Record<string, string>) =>
    cluster.when(SANDBOXES, name, (sandbox) => {
      const is = sandbox && told(sandbox)
      return Object.entries(wanted).every(([type, value]) => is?.[type] === value)
    }) as Promise<KubeObject>
  return { ...all, at, create, patch, read, remove, when }
}

/** Only what is said of the generation that there is. */
function told({ metadata, status }: KubeObject): Record<string, string> {
  const conditions = (status?.conditions ?? []) as {
    type: string
    status: string
    reason: string
    observedGeneration: number
  }[]
  const current = conditions.filter(({ observedGeneration }) => observedGeneration === metadata.generation)
  return Object.fromEntries(current.map(({ type, status, reason }) => [type, `${status} ${reason}`]))
}

const READY = { Ready: 'True DependenciesReady' }

describe('a sandbox', () => {
  test('is a pod of the same name, which it owns', async () => {
    const { create, when, cluster, read } = await setup()
    const made = await create('a', { service: true })
    expect(made).toMatchObject({
      kind: 'Sandbox',
      metadata: { generation: 1 },
      spec: { operatingMode: 'Running', shutdownPolicy: 'Retain' },
    })
    const ready = await when('a', READY)
    expect(told(ready)).toEqual({
      ...READY,
      Suspended: 'False NotSuspended',
      PodScheduled: 'True PodScheduled',
    })
    expect(ready.metadata.annotations).toMatchObject({ 'agents.x-k8s.io/pod-name': 'a' })
    expect(ready.metadata.generation).toBe(1)
    expect(ready.status).toMatchObject({
      podIPs: ['127.0.0.1'],
      nodeName: 'node-1',
      service: 'a',
      serviceFQDN: 'a.agents.svc.cluster.local',
    })
    expect(cluster.get('pods', 'a')?.metadata).toMatchObject({
      labels: { app: 'x', 'agents.x-k8s.io/sandbox-name-hash': 'e40c292c' },
      ownerReferences: [{ kind: 'Sandbox', name: 'a', uid: made.metadata.uid, controller: true }],
    })
    expect(await read('a')).toMatchObject({ apiVersion: 'agents.x-k8s.io/v1beta1' })
  })

  test('keeps its claims while it sleeps, and wakes with them as another pod', async () => {
    const { create, patch, when, cluster } = await setup()
    const volumeClaimTemplates = [{ metadata: { name: 'home' }, spec: { accessModes: ['ReadWriteOnce'] } }]
    const agent = { ...sh('agent', 'sleep 1000'), volumeMounts: [{ name: 'home', mountPath: '/home/agent' }] }
    await create('a', { volumeClaimTemplates, podTemplate: { spec: { containers: [agent] } } })
    await when('a', READY)
    const before = cluster.get('pods', 'a')?.metadata.uid
    const folder = cluster.folderOfClaim('home-a')
    writeFileSync(path.join(folder, 'kept'), '')
    await patch('a', { spec: { operatingMode: 'Suspended' } })
    await when('a', { Ready: 'False SandboxSuspended', Suspended: 'False PodTerminating' })
    const asleep = await when('a', { Ready: 'False SandboxSuspended', Suspended: 'True PodTerminated' })
    expect(asleep.status).not.toHaveProperty('podIPs')
    expect(asleep.status).not.toHaveProperty('nodeName')
    await cluster.when(SANDBOXES, 'a', (sandbox) => !sandbox?.metadata.annotations?.['agents.x-k8s.io/pod-name'])
    await patch('a', { spec: { operatingMode: 'Running' } })
    const awake = await when('a', { ...READY, Suspended: 'False NotSuspended' })
    expect(awake.metadata.generation).toBe(3)
    expect(cluster.get('pods', 'a')?.metadata.uid).not.toBe(before)
    expect(cluster.folderOfClaim('home-a')).toBe(folder)
    expect(existsSync(path.join(folder, 'kept'))).toBe(true)
  })

  test('that is woken before it slept waits for its old pod, and is ready as long as that is', async () => {
    const { create, patch, when, cluster, core, namespace } = await setup({ graceScale: 1_000 })
    await create('a', {
      podTemplate: { spec: { containers: [sh('agent', 'trap "" TERM; echo ready; while :; do sleep 0.01; done')] } },
    })
    await when('a', READY)
    await said(cluster.container('a', 'agent'), 'ready')
    const before = cluster.get('pods', 'a')?.metadata.uid
    await patch('a', { spec: { operatingMode: 'Suspended' } })
    await when('a', { Suspended: 'False PodTerminating' })
    await patch('a', { spec: { operatingMode: 'Running' } })
    // Of the pod that is about to go.
    await when('a', READY)
    expect(cluster.get('pods', 'a')?.metadata).toMatchObject({ uid: before, deletionTimestamp: expect.any(String) })
    await core.deleteNamespacedPod({ name: 'a', namespace, gracePeriodSeconds: 0 })
    await cluster.when('pods', 'a', (pod) => pod !== undefined && pod.metadata.uid !== before)
    await when('a', READY)
  })

  test('of an older controller says that it sleeps, though it was woken', async () => {
    const { create, patch, when, cluster } = await setup({ staleSuspended: true })
    await create('a')
    await when('a', READY)
    await patch('a', { spec: { operatingMode: 'Suspended' } })
    await when('a', { Suspended: 'True PodTerminated' })
    await patch('a', { spec: { operatingMode: 'Running' } })
    const awake = await when('a', READY)
    expect(told(awake)).not.toHaveProperty('Suspended')
    expect(cluster.get(SANDBOXES, 'a')?.status?.conditions).toContainEqual(
      expect.objectContaining({ type: 'Suspended', status: 'True', observedGeneration: 2 }),
    )
  })

  test('whose pod has ended is finished, and one whose pod is gone has another', async () => {
    const { create, when, cluster, core, namespace, patch } = await setup()
    await create('a', { podTemplate: { spec: { restartPolicy: 'Never', containers: [sh('agent', 'exit 1')] } } })
    const finished = await when('a', { Ready: 'False PodFailed', Finished: 'True PodFailed' })
    const uid = cluster.get('pods', 'a')?.metadata.uid
    await patch('a', { metadata: { labels: { looked: 'at' } } })
    expect(cluster.get('pods', 'a')?.metadata.uid).toBe(uid)
    expect(finished.status?.podIPs).toEqual(['127.0.0.1'])
    await core.deleteNamespacedPod({ name: 'a', namespace })
    await cluster.when('pods', 'a', (pod) => pod !== undefined && pod.metadata.uid !== uid)
  })

  test('takes its pod and its claims along when it goes', async () => {
    const { create, when, cluster, remove } = await setup()
    const volumeClaimTemplates = [{ metadata: { name: 'home' }, spec: {} }]
    await create('a', { volumeClaimTemplates, service: true })
    const { metadata } = await when('a', READY)
    expect(await remove('a')).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      details: { name: 'a', group: 'agents.x-k8s.io', kind: 'sandboxes', uid: metadata.uid },
    })
    expect(cluster.get('pods', 'a')).toBeDefined()
    await gone(cluster, 'home-a', 'persistentvolumeclaims')
    await gone(cluster, 'a', 'pods')
    await gone(cluster, 'a', 'services')
    await create('b')
    await when('b', READY)
    expect(await remove('b', { propagationPolicy: 'Foreground' })).toMatchObject({
      metadata: { deletionTimestamp: expect.any(String), finalizers: ['foregroundDeletion'] },
    })
    await gone(cluster, 'b', SANDBOXES)
    expect(cluster.get('pods', 'b')).toBeUndefined()
  })

  test.each(['Retain', 'Delete'])(
    'that has expired says so and loses its pod, and itself if it is to (%s)',
    async (shutdownPolicy) => {
      const { create, when, cluster, patch } = await setup()
      const shutdownTime = new Date(Date.now() + 60_000).toISOString()
      await create('a', { shutdownTime, shutdownPolicy })
      await when('a', READY)
      const gate = cluster.holdController('delete pod')
      cluster.advance(61_000)
      await gate.entered(1)
      expect(told(cluster.get(SANDBOXES, 'a') as KubeObject)).toMatchObject({ Ready: 'False SandboxExpired' })
      gate.open()
      await gone(cluster, 'a', 'pods')
      if (shutdownPolicy === 'Delete') {
        await gone(cluster, 'a', SANDBOXES)
        return
      }
      expect(cluster.get(SANDBOXES, 'a')?.status).not.toHaveProperty('podIPs')
      await patch('a', { spec: { shutdownTime: new Date(cluster.nowMs + 60_000).toISOString() } })
      await when('a', READY)
    },
  )

  test('gives its pod the labels of its template also while that runs, and never those of the system', async () => {
    const { create, when, cluster, patch } = await setup()
    await create('a')
    await when('a', READY)
    const uid = cluster.get('pods', 'a')?.metadata.uid
    const labels = { app: null, tier: 'one', 'agents.x-k8s.io/sandbox-name-hash': 'mine' }
    await patch('a', { spec: { podTemplate: { metadata: { labels } } } })
    const pod = await cluster.when('pods', 'a', (pod) => pod?.metadata.labels?.tier === 'one')
    expect(pod?.metadata).toMatchObject({
      uid,
      labels: { tier: 'one', 'agents.x-k8s.io/sandbox-name-hash': 'e40c292c' },
    })
    expect(pod?.metadata.labels).not.toHaveProperty('app')
  })

  test('says what keeps it from having a pod', async () => {
    const { create, when, core, namespace, cluster } = await setup()
    await create('bad', { podTemplate: { spec: { containers: [{ name: 'agent' }] } } })
    const failed = await when('bad', { Ready: 'False ReconcilerError' })
    expect(failed.status?.conditions).toContainEqual(
      expect.objectContaining({
        message: 'Error seen: Pod "bad" is invalid: spec.containers[0].image: Required value',
      }),
    )
    cluster.exceedQuota('pods', 'pods-quota, requested: pods=1, used: pods=5, limited: pods=5')
    await create('poor')
    const poor = await when('poor', { Ready: 'False ReconcilerError' })
    expect(JSON.stringify(poor.status)).toContain('exceeded quota')
    cluster.exceedQuota('pods', undefined)
    await when('poor', READY)
    const { uid } = poor.metadata
    const ownerReferences = [
      { apiVersion: 'agents.x-k8s.io/v1beta1', kind: 'Sandbox', name: 'poor', uid, controller: true },
    ]
    const { containers } = { containers: [sh('agent', 'sleep 1000')] }
    await core.createNamespacedPod({
      namespace,
      body: { metadata: { name: 'second', ownerReferences }, spec: { containers } },
    })
    await when('poor', { Ready: 'False MultiplePods' })
  })

  test('is not touched while its controller is away, or held up', async () => {
    const { create, when, cluster } = await setup()
    cluster.pauseController()
    await create('a')
    const gate = cluster.holdController('create pod')
    cluster.resumeController()
    await gate.entered(1)
    expect(cluster.get('pods', 'a')).toBeUndefined()
    gate.open()
    await when('a', READY)
  })
})

describe('the API of sandboxes', () => {
  test('takes no strategic merges, and only specs that are', async () => {
    const { create, custom, at, patch } = await setup()
    expect(await refusal(create('a', { podTemplate: undefined }))).toMatchObject({
      code: 422,
      message: 'Sandbox.agents.x-k8s.io "a" is invalid: spec.podTemplate: Required value',
    })
    expect(await refusal(create('a', { operatingMode: 'Asleep' }))).toMatchObject({ code: 422 })
    expect(await refusal(create('a', { shutdownTime: 'soon' }))).toMatchObject({ code: 422 })
    await create('a', { replicas: 0 })
    const strategic = custom.patchNamespacedCustomObject({ ...at, name: 'a', body: {} }, as('StrategicMergePatch'))
    expect(await refusal(strategic)).toMatchObject({ code: 415, reason: 'UnsupportedMediaType' })
    // An object, as what the SDK says it is by itself.
    const plain = custom.patchNamespacedCustomObject({ ...at, name: 'a', body: { spec: {} } })
    expect(await refusal(plain)).toMatchObject({ code: 400 })
    expect(await refusal(patch('a', { spec: { volumeClaimTemplates: [] } }))).toMatchObject({ code: 422 })
    expect((await patch('a', {})).spec).not.toHaveProperty('replicas')
    expect(await refusal(patch('x', {}))).toMatchObject({
      code: 404,
      message: 'sandboxes.agents.x-k8s.io "x" not found',
      details: { name: 'x', group: 'agents.x-k8s.io', kind: 'sandboxes' },
    })
  })

  test('is the same in its older version, with replicas', async () => {
    const { create, when, patch, custom, at, fetch, read } = await setup({}, 'v1alpha1')
    const made = await create('a')
    expect(made).toMatchObject({ apiVersion: 'agents.x-k8s.io/v1alpha1', spec: { replicas: 1 } })
    expect(made.spec).not.toHaveProperty('operatingMode')
    await when('a', READY)
    expect((await read('a')).status).toMatchObject({ replicas: 1 })
    await patch('a', { spec: { replicas: 0 } })
    await when('a', { Suspended: 'True PodTerminated' })
    const scale = { ...at, name: 'a', body: { spec: { replicas: 1 } } }
    expect(await custom.patchNamespacedCustomObjectScale(scale, as('MergePatch'))).toMatchObject({
      kind: 'Scale',
      spec: { replicas: 1 },
    })
    await when('a', READY)
    const { items } = (await custom.listNamespacedCustomObject(at)) as { items: KubeObject[] }
    expect(items).toMatchObject([{ kind: 'Sandbox', apiVersion: 'agents.x-k8s.io/v1alpha1', spec: { replicas: 1 } }])
    expect((await fetch('/apis/agents.x-k8s.io/v1beta1/namespaces/agents/sandboxes')).status).toBe(404)
    expect(await (await fetch('/apis/agents.x-k8s.io')).json()).toMatchObject({
      preferredVersion: { version: 'v1alpha1' },
    })
  })
})
