import type { V1RoleBinding } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { openAgentSandboxBackend } from '../../src/backends/agent-sandbox/backend.ts'
import type { Backend } from '../../src/backends/backend.ts'
import type { KubernetesOptions } from '../../src/backends/kubernetes/cluster.ts'
import { openPodBackend } from '../../src/backends/kubernetes-pod/backend.ts'
import type { Asked } from '../support/kubernetes/requests.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../support/kubernetes/server.ts'
import { type RoleRule, readManifest, readManifests, readRules, readSettings } from '../support/manifests.ts'
import { type Life, liveThrough } from './every-method.ts'

const IMAGE = 'sandman-test'
/** One that wants less of whoever comes with a WebSocket, and one that wants more. */
const [BEFORE, SINCE] = ['v1.34.0', 'v1.35.0']

type Case = {
  name: string
  /** All that it has. */
  roles: string[]
  open(options: KubernetesOptions): Promise<Backend>
  cluster: FakeKubernetesOptions & { version: string }
  options?: Partial<KubernetesOptions>
  /** What somebody else has made, named `strange`, to be adopted. */
  strange: Strange
}
type Strange = { path: (namespace: string) => string; object: object }

const containers = [{ name: 'main', image: IMAGE, command: ['sleep', '100'] }]
const pod: Strange = {
  path: (namespace) => `/api/v1/namespaces/${namespace}/pods`,
  object: { metadata: { name: 'strange' }, spec: { containers } },
}
const sandbox = (version: 'v1alpha1' | 'v1beta1'): Strange => ({
  path: (namespace) => `/apis/agents.x-k8s.io/${version}/namespaces/${namespace}/sandboxes`,
  object: { metadata: { name: 'strange' }, spec: { podTemplate: { spec: { containers } } } },
})
const bare = { roles: ['sandman-kubernetes-pod'], open: openPodBackend, strange: pod }
const kept = { roles: ['sandman-agent-sandbox'], open: openAgentSandboxBackend }

const CASES: Case[] = [
  { name: 'bare pods', ...bare, cluster: { version: BEFORE } },
  { name: 'bare pods of a newer cluster', ...bare, cluster: { version: SINCE } },
  {
    name: 'agent-sandbox',
    ...kept,
    strange: sandbox('v1beta1'),
    cluster: { version: SINCE, serve: { sandboxes: ['v1beta1'] } },
  },
  {
    name: 'agent-sandbox as it was',
    ...kept,
    strange: sandbox('v1alpha1'),
    cluster: { version: BEFORE, serve: { sandboxes: ['v1alpha1'] } },
  },
]

type Lived = Life & { requests: Asked[] }

/** A life with nothing allowed but this. */
async function live({ open, cluster: given, options, strange }: Case, rules: RoleRule[]): Promise<Lived> {
  const { SANDMAN_KUBERNETES_NAMESPACE: namespace = '' } = await readSettings()
  const cluster = await FakeKubernetes.start({ namespace, images: new Set([IMAGE]), ...given })
  try {
    await make(cluster, strange.path(namespace), strange.object)
    cluster.requests.clear()
    cluster.allow(rules)
    const opened = await open({ fleet: 'default', namespace, connection: cluster.connect(), ...options })
    const life = await liveThrough(opened, { template: IMAGE, adopted: 'strange' }).finally(() => opened.close())
    return { ...life, requests: [...cluster.requests] }
  } finally {
    await cluster.stop()
  }
}

const lives = new Map<Case, Promise<Lived>>()

/** Each is lived once, whichever test asks first. */
function lifeOf(one: Case): Promise<Lived> {
  const lived = lives.get(one) ?? readRules(...one.roles).then((rules) => live(one, rules))
  lives.set(one, lived)
  return lived
}

test.each(CASES)('$name have every right that any of their methods needs', async (one) => {
  const { called, methods, requests } = await lifeOf(one)
  expect([...called].sort()).toEqual([...methods].sort())
  expect(requests.filter(({ status }) => status === 403).map(told)).toEqual([])
})

test('what no role says is forbidden', async () => {
  const rules = await readRules('sandman-kubernetes-pod')
  const less = rules.map((rule) => ({ ...rule, verbs: rule.verbs.filter((verb) => verb !== 'create') }))
  const [one] = CASES as [Case]
  await expect(live(one, less)).rejects.toMatchObject({ type: 'provider_unauthorized' })
})

test('no role has a right that nobody uses who has it', async () => {
  const roles = (await readManifests()).filter(({ kind }) => kind === 'Role')
  for (const role of roles.map(({ metadata }) => String(metadata?.name))) {
    const used = new Set<string>()
    for (const one of CASES.filter(({ roles }) => roles.includes(role)))
      for (const asked of (await lifeOf(one)).requests)
        for (const right of rightsOf(asked, one.cluster.version)) used.add(right)
    const rights = (await readRules(role)).flatMap(rightsIn)
    expect(rights.filter((right) => !used.has(right)).map((right) => `${role}: ${right}`)).toEqual([])
  }
}, 120_000)

test('only the worker has rights, in the sandboxes’ namespace, and none with a star in it', async () => {
  const { SANDMAN_KUBERNETES_NAMESPACE: namespace } = await readSettings()
  const all = await readManifests()
  expect(all.filter(({ kind }) => /^Cluster(Role|RoleBinding)$/.test(kind ?? ''))).toEqual([])
  for (const { metadata } of all.filter(({ kind }) => kind === 'Role')) {
    expect(metadata?.namespace).toBe(namespace)
    const { roleRef, subjects } = await readManifest<V1RoleBinding>('RoleBinding', String(metadata?.name))
    expect(roleRef).toEqual({ apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata?.name })
    expect(subjects).toEqual([{ kind: 'ServiceAccount', name: 'sandman-worker', namespace: 'sandman' }])
    for (const { apiGroups, resources, verbs } of await readRules(String(metadata?.name)))
      expect([...apiGroups, ...resources, ...verbs]).not.toContain('*')
  }
})

/** As `create pods`, or `get pods/log`; with a name where a rule has one. */
function rightsIn({ apiGroups, resources, verbs, resourceNames }: RoleRule): string[] {
  return apiGroups.flatMap((group) =>
    resources.flatMap((resource) =>
      verbs.flatMap((verb) => (resourceNames ?? ['']).map((name) => right({ verb, group, resource, name }))),
    ),
  )
}

/** Nobody needs a right for what is about no objects. */
function rightsOf({ verb, group, resource, name, isUpgrade }: Asked, version: string): string[] {
  if (verb === undefined) return []
  const named = resource === 'namespaces' ? name : ''
  const verbs = isUpgrade && version === SINCE ? [verb, 'create'] : [verb]
  return verbs.map((each) => right({ verb: each, group, resource, name: named }))
}

function right({ verb, group, resource, name }: { verb: string; group: string; resource: string; name: string }) {
  return [verb, group === '' ? resource : `${resource}.${group}`, name].filter((word) => word !== '').join(' ')
}

function told({ verb, group, resource, name }: Asked): string {
  return right({ verb: verb ?? '', group, resource, name })
}

async function make({ url, token }: FakeKubernetes, path: string, object: object): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const made = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(object) })
  if (!made.ok) throw new Error(await made.text())
}
