import { CoreV1Api, KubernetesObjectApi, VersionApi } from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { as, configOf, gone, pod, refusal, running, setup, sh, watch } from './fake-setup.ts'
import { said } from './runtime-setup.ts'

const PODS = '/api/v1/namespaces/agents/pods'
const jsonPatch = { 'content-type': 'application/json-patch+json' }
const mergePatch = { 'content-type': 'application/merge-patch+json' }

describe('objects', () => {
  test('get a name, a uid and a version of their own, and another uid when they are made again', async () => {
    const { core, namespace, cluster } = await setup({ schedulable: false })
    const body = pod('', {}, { generateName: 'box-', name: '' })
    const made = await core.createNamespacedPod({ namespace, body })
    const { name = '', uid, resourceVersion } = made.metadata ?? {}
    expect(name).toMatch(/^box-[a-z0-9]{5}$/)
    expect(made).toMatchObject({ kind: 'Pod', apiVersion: 'v1', metadata: { namespace, generation: 1 } })
    expect(made.metadata?.creationTimestamp?.getMilliseconds()).toBe(0)
    await core.deleteNamespacedPod({ name, namespace })
    const again = await core.createNamespacedPod({ namespace, body: pod(name) })
    expect(again.metadata?.uid).not.toBe(uid)
    expect(Number(again.metadata?.resourceVersion)).toBeGreaterThan(Number(resourceVersion) + 1)
    expect(cluster.list('pods')).toHaveLength(1)
  })

  test('are defaulted, and their status is nobody’s to write but its own way', async () => {
    const { core, namespace, custom } = await setup({ schedulable: false })
    const made = await core.createNamespacedPod({
      namespace,
      body: { ...pod('a', { restartPolicy: undefined as never }), status: { phase: 'Running' } },
    })
    expect(made).toMatchObject({
      spec: { restartPolicy: 'Always', terminationGracePeriodSeconds: 30 },
      status: { phase: 'Pending', qosClass: 'BestEffort' },
    })
    expect(made.status?.containerStatuses).toBeUndefined()
    const patched = await core.patchNamespacedPod(
      { name: 'a', namespace, body: { status: { phase: 'Failed' }, metadata: { labels: { x: 'y' } } } },
      as('MergePatch'),
    )
    expect(patched).toMatchObject({ status: { phase: 'Pending' }, metadata: { labels: { x: 'y' }, generation: 1 } })
    const told = await core.patchNamespacedPodStatus(
      { name: 'a', namespace, body: { status: { phase: 'Failed' }, metadata: { labels: { x: 'z' } } } },
      as('MergePatch'),
    )
    expect(told).toMatchObject({ status: { phase: 'Failed' }, metadata: { labels: { x: 'y' } } })
    expect(custom).toBeDefined()
  })

  test('that nothing is changed of keep their version', async () => {
    const { core, namespace, create } = await setup({ schedulable: false })
    await create('a', {}, { labels: { x: 'y' } })
    const read = () => core.readNamespacedPod({ name: 'a', namespace })
    const before = await read()
    await core.patchNamespacedPod(
      { name: 'a', namespace, body: { metadata: { labels: { x: 'y' } } } },
      as('MergePatch'),
    )
    expect((await read()).metadata?.resourceVersion).toBe(before.metadata?.resourceVersion)
  })

  test('are refused in the server’s own words', async () => {
    const { core, namespace, create } = await setup({ schedulable: false })
    await create('a')
    const read = (name: string) => core.readNamespacedPod({ name, namespace })
    expect(await refusal(read('x'))).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'pods "x" not found',
      reason: 'NotFound',
      details: { name: 'x', kind: 'pods' },
      code: 404,
    })
    expect(await refusal(create('a'))).toMatchObject({
      code: 409,
      reason: 'AlreadyExists',
      message: 'pods "a" already exists',
    })
    const { resourceVersion } = (await read('a')).metadata ?? {}
    const body = { metadata: { resourceVersion: '1', labels: { x: 'y' } } }
    expect(await refusal(core.patchNamespacedPod({ name: 'a', namespace, body }, as('MergePatch')))).toMatchObject({
      code: 409,
      reason: 'Conflict',
      message:
        'Operation cannot be fulfilled on pods "a": the object has been modified; please apply your changes to the latest version and try again',
    })
    body.metadata.resourceVersion = String(resourceVersion)
    await core.patchNamespacedPod({ name: 'a', namespace, body }, as('MergePatch'))
    expect(await refusal(create('B C'))).toMatchObject({ code: 422, reason: 'Invalid' })
    expect(await refusal(create('b', { containers: [{ name: 'x' }] }))).toMatchObject({
      code: 422,
      message: 'Pod "b" is invalid: spec.containers[0].image: Required value',
      details: { causes: [{ reason: 'FieldValueRequired', field: 'spec.containers[0].image' }] },
    })
    const immutable = core.patchNamespacedPod(
      { name: 'a', namespace, body: { spec: { restartPolicy: 'Always' } } },
      as('MergePatch'),
    )
    expect(await refusal(immutable)).toMatchObject({
      code: 422,
      message: expect.stringContaining('may not change fields'),
    })
    const elsewhere = core.createNamespacedPod({ namespace: 'nowhere', body: pod('a') })
    expect(await refusal(elsewhere)).toMatchObject({ code: 404, message: 'namespaces "nowhere" not found' })
  })

  test('are not there for who has no token, or no right', async () => {
    const { core, namespace, cluster, create } = await setup()
    const stranger = configOf({ url: cluster.url, token: 'another' }).makeApiClient(CoreV1Api)
    await expect(stranger.listNamespacedPod({ namespace })).rejects.toMatchObject({ code: 401 })
    cluster.allow([
      { apiGroups: [''], resources: ['pods'], verbs: ['get', 'create'] },
      { apiGroups: [''], resources: ['pods'], verbs: ['delete'], resourceNames: ['mine'] },
    ])
    await create('a')
    await create('mine')
    expect(await refusal(core.deleteNamespacedPod({ name: 'a', namespace }))).toMatchObject({
      code: 403,
      reason: 'Forbidden',
      message:
        'pods "a" is forbidden: User "system:serviceaccount:agents:sandman" cannot delete resource "pods" in API group "" in the namespace "agents"',
    })
    await core.deleteNamespacedPod({ name: 'mine', namespace })
    expect(await refusal(core.readNamespacedPodLog({ name: 'a', namespace }))).toMatchObject({ code: 403 })
    expect(await refusal(core.listPodForAllNamespaces())).toMatchObject({
      message: expect.stringContaining('at the cluster scope'),
    })
    cluster.allow(undefined)
    await core.deleteNamespacedPod({ name: 'a', namespace })
  })

  test('of what is not served are no word of the API', async () => {
    const { fetch, config } = await setup()
    for (const path of ['/apis/agents.x-k8s.io/v1beta1/namespaces/agents/sandboxes/x', '/apis/x/v1', '/nowhere']) {
      const response = await fetch(path)
      expect(response.status).toBe(404)
      expect(response.headers.get('content-type')).toContain('text/plain')
      expect(await response.text()).toBe('404 page not found\n')
    }
    expect(await config.makeApiClient(VersionApi).getCode()).toMatchObject({
      major: '1',
      minor: '33',
      gitVersion: 'v1.33.0',
    })
    // It goes by discovery alone.
    const objects = KubernetesObjectApi.makeApiClient(config)
    const made = await objects.create({
      apiVersion: 'v1',
      kind: 'ConfigMap',
      metadata: { name: 'c', namespace: 'agents' },
    })
    expect(made).toMatchObject({ metadata: { name: 'c' } })
    const { resources } = (await (await fetch('/api/v1')).json()) as { resources: { name: string }[] }
    expect(resources.map(({ name }) => name)).toEqual(
      expect.arrayContaining(['pods', 'pods/log', 'pods/exec', 'namespaces']),
    )
  })
})

describe('patches', () => {
  test('of JSON are done whole or not at all', async () => {
    const { fetch, create, read } = await setup({ schedulable: false })
    const { metadata } = await create('a', {}, { annotations: { 'a/b': 'one' } })
    const patch = (body: unknown, headers = jsonPatch) =>
      fetch(`${PODS}/a`, { method: 'PATCH', headers, body: JSON.stringify(body) })
    const uid = metadata?.uid
    const mine = [
      { op: 'test', path: '/metadata/uid', value: uid },
      { op: 'replace', path: '/metadata/annotations/a~1b', value: 'two' },
      { op: 'add', path: '/metadata/labels', value: { x: 'y' } },
    ]
    expect((await patch(mine)).status).toBe(200)
    expect((await read('a')).metadata).toMatchObject({ annotations: { 'a/b': 'two' }, labels: { x: 'y' } })
    const others = [
      { op: 'remove', path: '/metadata/labels/x' },
      { op: 'test', path: '/metadata/uid', value: 'other' },
    ]
    const refused = await patch(others)
    expect(refused.status).toBe(422)
    expect(await refused.json()).toMatchObject({
      reason: 'Invalid',
      message: 'the server rejected our request due to an error in our request',
    })
    expect((await read('a')).metadata?.labels).toEqual({ x: 'y' })
    const undecodable = await patch({ metadata: { labels: { x: 'z' } } })
    expect(undecodable.status).toBe(400)
    expect(await undecodable.json()).toMatchObject({
      message: 'error decoding patch: json: cannot unmarshal object into Go value of type jsonpatch.Patch',
    })
    const removed = await patch({ metadata: { labels: { x: null } } }, mergePatch)
    expect(await removed.json()).toMatchObject({ metadata: { labels: {} } })
    expect((await patch({}, { 'content-type': 'application/json' })).status).toBe(415)
  })

  test('that are applied make what is missing, take back what they leave out, and do not overrule others', async () => {
    const { fetch, create } = await setup({ schedulable: false })
    const apply = async (name: string, labels: Record<string, string>, query: string, spec = pod(name).spec) => {
      const body = JSON.stringify({ apiVersion: 'v1', kind: 'Pod', metadata: { name, labels }, ...(spec && { spec }) })
      const headers = { 'content-type': 'application/apply-patch+yaml' }
      const response = await fetch(`${PODS}/${name}${query}`, { method: 'PATCH', headers, body })
      return (await response.json()) as { code?: number; metadata: { labels?: unknown } }
    }
    expect((await apply('a', {}, '')).code).toBe(422)
    expect((await apply('a', { x: '1', y: '1' }, '?fieldManager=me')).metadata.labels).toEqual({ x: '1', y: '1' })
    expect(await apply('a', { x: '2' }, '?fieldManager=me')).toMatchObject({
      metadata: { labels: { x: '2' } },
    })
    expect((await apply('a', { x: '2' }, '?fieldManager=me')).metadata.labels).toEqual({ x: '2' })
    expect(await apply('a', { x: '3' }, '?fieldManager=you', null as never)).toMatchObject({
      code: 409,
      reason: 'Conflict',
      details: { causes: [{ reason: 'FieldManagerConflict', field: '.metadata.labels.x' }] },
    })
    expect(await apply('a', { x: '3' }, '?fieldManager=you&force=true', null as never)).toMatchObject({
      metadata: { labels: { x: '3' } },
    })
    await create('b', {}, { labels: { x: '1' } })
    expect((await apply('b', { x: '2' }, '?fieldManager=me', null as never)).code).toBe(409)
  })
})

describe('lists', () => {
  test('show what is selected, by name', async () => {
    const { core, namespace, create, cluster } = await setup()
    cluster.schedulable = false
    await create('c', {}, { labels: { app: 'x', tier: 'one' } })
    await create('a', {}, { labels: { app: 'x' } })
    await create('b', {}, { labels: { app: 'y' } })
    const names = async (query: { labelSelector?: string; fieldSelector?: string }) => {
      const { items } = await core.listNamespacedPod({ namespace, ...query })
      return items.map(({ metadata }) => metadata?.name).join('')
    }
    const selected = await Promise.all(
      ['', 'app=x', 'app==x', 'app!=x', 'app in (x,y),tier', 'app notin (x)', '!tier', 'tier', 'app=x,tier=one'].map(
        (labelSelector) => names({ labelSelector }),
      ),
    )
    expect(selected).toEqual(['abc', 'ac', 'ac', 'b', 'c', 'b', 'ab', 'c', 'c'])
    expect(await names({ fieldSelector: 'metadata.name=b' })).toBe('b')
    expect(await names({ fieldSelector: 'status.phase!=Running,spec.nodeName=' })).toBe('abc')
    expect(await refusal(names({ fieldSelector: 'spec.hat=x' }))).toMatchObject({ code: 400 })
  })

  test('come in pages of what there was at their beginning, until that is forgotten', async () => {
    const { fetch, cluster, core, namespace } = await setup()
    cluster.seed(5, (n) => ({ metadata: { name: `p${n}` } }))
    type Page = {
      items: { metadata: { name: string }; kind?: string }[]
      metadata: { continue?: string; remainingItemCount?: number }
    }
    const page = async (query: string) => {
      const response = await fetch(`${PODS}?limit=2${query}`)
      return (await response.json()) as Page
    }
    const first = await page('')
    expect(first.metadata.remainingItemCount).toBe(3)
    expect(first.items[0]?.kind).toBeUndefined()
    await core.deleteNamespacedPod({ name: 'p3', namespace })
    await gone(cluster, 'p3')
    const second = await page(`&continue=${first.metadata.continue}`)
    expect(second.items.map(({ metadata }) => metadata.name)).toEqual(['p2', 'p3'])
    const last = await page(`&continue=${second.metadata.continue}`)
    expect(last).toMatchObject({
      items: [{ metadata: { name: 'p4' } }],
      metadata: { resourceVersion: expect.any(String) },
    })
    expect(last.metadata.continue).toBeUndefined()
    cluster.compact()
    expect(await page(`&continue=${first.metadata.continue}`)).toMatchObject({ code: 410, reason: 'Expired' })
  })
})

describe('watches', () => {
  test('tell what happens from a version on, and what enters and leaves their selection', async () => {
    const { cluster, config, core, namespace } = await setup()
    cluster.seed(2, (n) => ({ metadata: { name: `p${n}`, labels: { app: 'x' } } }))
    const { metadata } = await core.listNamespacedPod({ namespace })
    const label = (name: string, app: string) =>
      core.patchNamespacedPod({ name, namespace, body: { metadata: { labels: { app } } } }, as('MergePatch'))
    await label('p0', 'y')
    const { events } = await watch(config, PODS, {
      resourceVersion: metadata?.resourceVersion ?? '',
      labelSelector: 'app=x',
    })
    await label('p0', 'x')
    await label('p1', 'x')
    await core.patchNamespacedPod(
      { name: 'p1', namespace, body: { metadata: { annotations: { a: 'b' } } } },
      as('MergePatch'),
    )
    await core.deleteNamespacedPod({ name: 'p1', namespace, gracePeriodSeconds: 0 })
    await expect.poll(() => events.length).toBe(4)
    expect(events.map(({ type, object }) => `${type} ${object.metadata.name}`)).toEqual([
      'DELETED p0',
      'ADDED p0',
      'MODIFIED p1',
      'DELETED p1',
    ])
    const versions = events.map(({ object }) => Number(object.metadata.resourceVersion))
    expect(versions).toEqual(versions.toSorted((a, b) => a - b))
    const fresh = await watch(config, PODS, {})
    await expect.poll(() => fresh.events).toMatchObject([{ type: 'ADDED', object: { metadata: { name: 'p0' } } }])
  })

  test('are ended, fooled and told to begin anew', async () => {
    const { cluster, config, core, namespace, fetch } = await setup({ bookmarkEveryMs: 20 })
    cluster.seed(1, () => ({ metadata: { name: 'p' } }))
    const { metadata } = await core.listNamespacedPod({ namespace })
    const from = { resourceVersion: metadata?.resourceVersion ?? '' }
    const bookmarked = await watch(config, PODS, { ...from, allowWatchBookmarks: 'true', timeoutSeconds: '1' })
    await expect
      .poll(() => bookmarked.events[0])
      .toMatchObject({ type: 'BOOKMARK', object: { kind: 'Pod', metadata: from } })
    for (const [how, end] of [
      ['fin', null],
      ['reset', expect.any(TypeError)],
      ['half', null],
    ] as const) {
      const { done } = await watch(config, PODS, from)
      cluster.dropWatches(how)
      expect(await done).toEqual(end)
    }
    const fooled = await watch(config, PODS, from)
    cluster.dropWatches('garbage')
    await core.patchNamespacedPod(
      { name: 'p', namespace, body: { metadata: { labels: { x: 'y' } } } },
      as('MergePatch'),
    )
    await expect.poll(() => fooled.events).toMatchObject([{ type: 'MODIFIED' }])
    cluster.dropWatches('410')
    await fooled.done
    expect(fooled.events[1]).toMatchObject({ type: 'ERROR', object: { code: 410, reason: 'Expired' } })
    cluster.compact()
    const late = await watch(config, PODS, from)
    await late.done
    expect(late.events).toMatchObject([
      {
        type: 'ERROR',
        object: { code: 410, message: expect.stringMatching(/^too old resource version: \d+ \(\d+\)$/) },
      },
    ])
    cluster.goneAs = 'http'
    expect(await (await watch(config, PODS, from)).done).toMatchObject({ statusCode: 410 })
    expect((await fetch(`${PODS}?watch=1&resourceVersion=abc`)).status).toBe(400)
  })
})

describe('deletions', () => {
  test('are asked of one object and not of its successor', async () => {
    const { core, namespace, create } = await setup({ schedulable: false })
    const { metadata } = await create('a')
    const remove = (preconditions: { uid?: string; resourceVersion?: string }) =>
      core.deleteNamespacedPod({ name: 'a', namespace, body: { preconditions } })
    expect(await refusal(remove({ uid: 'other' }))).toMatchObject({
      code: 409,
      reason: 'Conflict',
      message: expect.stringContaining(
        `Precondition failed: UID in precondition: other, UID in object meta: ${metadata?.uid}`,
      ),
    })
    expect(await refusal(remove({ resourceVersion: '1' }))).toMatchObject({ code: 409 })
    expect(await remove({ uid: metadata?.uid ?? '' })).toMatchObject({ metadata: { name: 'a' } })
    expect(await refusal(remove({ uid: metadata?.uid ?? '' }))).toMatchObject({ code: 404 })
  })

  test('wait for finalizers, and take along what is owned', async () => {
    const { core, namespace, create, cluster } = await setup({ schedulable: false })
    const { metadata } = await core.createNamespacedConfigMap({
      namespace,
      body: { metadata: { name: 'owner', finalizers: ['x/y'] } },
    })
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: metadata?.uid ?? '' }]
    await create('owned', {}, { ownerReferences })
    await create('orphan', {}, { ownerReferences: [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'x', uid: 'nobody' }] })
    await gone(cluster, 'orphan')
    await core.deleteNamespacedConfigMap({ name: 'owner', namespace })
    expect(cluster.get('configmaps', 'owner')?.metadata.deletionTimestamp).toBeDefined()
    const again = core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'owner' } } })
    expect(await refusal(again)).toMatchObject({
      code: 409,
      message: 'object is being deleted: configmaps "owner" already exists',
    })
    expect(cluster.get('pods', 'owned')).toBeDefined()
    const body = { metadata: { finalizers: null } }
    await core.patchNamespacedConfigMap({ name: 'owner', namespace, body }, as('MergePatch'))
    await gone(cluster, 'owned')
    expect(cluster.get('configmaps', 'owner')).toBeUndefined()
  })

  test('in the foreground end with the last that was owned', async () => {
    const { core, namespace, create, cluster } = await setup()
    const { metadata } = await core.createNamespacedConfigMap({ namespace, body: { metadata: { name: 'owner' } } })
    const ownerReferences = [{ apiVersion: 'v1', kind: 'ConfigMap', name: 'owner', uid: metadata?.uid ?? '' }]
    await create('owned', { containers: [sh('agent', 'trap "" TERM; echo ready; sleep 1000')] }, { ownerReferences })
    await running(cluster, 'owned')
    await said(cluster.container('owned', 'agent'), 'ready')
    await core.deleteNamespacedConfigMap({ name: 'owner', namespace, propagationPolicy: 'Foreground' })
    await cluster.when('pods', 'owned', (pod) => pod?.metadata.deletionTimestamp !== undefined)
    expect(cluster.get('configmaps', 'owner')?.metadata.finalizers).toEqual(['foregroundDeletion'])
    await core.deleteNamespacedPod({ name: 'owned', namespace, gracePeriodSeconds: 0 })
    await gone(cluster, 'owner', 'configmaps')
  })

  test('that are only tried change nothing', async () => {
    const { core, namespace, create, cluster } = await setup({ schedulable: false })
    await core.createNamespacedPod({ namespace, body: pod('a'), dryRun: 'All' })
    expect(cluster.list('pods')).toEqual([])
    await create('a')
    await core.deleteNamespacedPod({ name: 'a', namespace, dryRun: 'All' })
    await core.deleteCollectionNamespacedPod({ namespace, labelSelector: 'no=one' })
    expect(cluster.list('pods')).toHaveLength(1)
    await core.deleteCollectionNamespacedPod({ namespace })
    expect(cluster.list('pods')).toEqual([])
  })
})
