import type { V1RoleBinding } from '@kubernetes/client-node'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Backend } from '../../src/backends/backend.ts'
import type { KubernetesOptions } from '../../src/backends/kubernetes/cluster.ts'
import { openPodBackend } from '../../src/backends/kubernetes-pod/backend.ts'
import type { Asked } from '../support/kubernetes/requests.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../support/kubernetes/server.ts'
import { type RoleRule, readManifest, readManifests, readRules, readSettings } from '../support/manifests.ts'
import { type Life, liveThrough } from './every-method.ts'

const IMAGE = 'sandman-test'
/** One that wants less of whoever comes with a WebSocket, and one that wants more. */
const VERSIONS = ['v1.33.0', 'v1.35.0']

type Case = {
  backend: string
  role: string
  open(options: KubernetesOptions): Promise<Backend>
  /** The clusters that it does different things in. */
  clusters: FakeKubernetesOptions[]
  /** Something named `strange`, to be adopted. */
  strange: { path: (namespace: string) => string; object: object }
}

const CASES: Case[] = [
  {
    backend: 'kubernetes-pod',
    role: 'sandman-kubernetes-pod',
    open: openPodBackend,
    clusters: VERSIONS.map((version) => ({ version })),
    strange: {
      path: (namespace) => `/api/v1/namespaces/${namespace}/pods`,
      object: {
        metadata: { name: 'strange' },
        spec: { containers: [{ name: 'main', image: IMAGE, command: ['sleep', '100'] }] },
      },
    },
  },
]

type Lived = Life & { requests: Asked[]; version: string }

/** A life with nothing allowed but this. */
async function live(one: Case, options: FakeKubernetesOptions, rules: RoleRule[]): Promise<Lived> {
  const { SANDMAN_KUBERNETES_NAMESPACE: namespace = '' } = await readSettings()
  const cluster = await FakeKubernetes.start({ namespace, images: new Set([IMAGE]), ...options })
  onTestFinished(() => cluster.stop())
  await make(cluster, one.strange.path(namespace), one.strange.object)
  cluster.requests.clear()
  cluster.allow(rules)
  const opened = await one.open({ fleet: 'default', namespace, connection: cluster.connect() })
  const life = await liveThrough(opened, { template: IMAGE, adopted: 'strange' }).finally(() => opened.close())
  return { ...life, requests: [...cluster.requests], version: options.version ?? '' }
}

describe.each(CASES)('of $backend', (one) => {
  test('every call is allowed by its Role, and every verb of that is one that is called', async () => {
    const rules = await readRules(one.role)
    const lives: Lived[] = []
    for (const options of one.clusters) lives.push(await live(one, options, rules))

    for (const { called, methods } of lives) expect([...called].sort()).toEqual([...methods].sort())
    const forbidden = lives.flatMap(({ requests }) => requests.filter(({ status }) => status === 403))
    expect(forbidden.map(told)).toEqual([])
    const used = new Set(
      lives.flatMap(({ requests, version }) => requests.flatMap((asked) => rightsOf(asked, version))),
    )
    expect([...new Set(rules.flatMap(rightsIn))].sort()).toEqual([...used].sort())
  })

  test('what its Role does not say is forbidden', async () => {
    const rules = await readRules(one.role)
    const less = rules.map((rule) => ({ ...rule, verbs: rule.verbs.filter((verb) => verb !== 'create') }))
    await expect(live(one, one.clusters.at(-1) ?? {}, less)).rejects.toMatchObject({ type: 'provider_unauthorized' })
  })
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
  const isChecked = isUpgrade && Number(version.split('.')[1]) >= 35
  return [verb, ...(isChecked ? ['create'] : [])].map((each) => right({ verb: each, group, resource, name: named }))
}

function right({ verb, group, resource, name }: { verb: string; group: string; resource: string; name: string }) {
  return [verb, group === '' ? resource : `${resource}.${group}`, name].filter((word) => word !== '').join(' ')
}

function told({ verb, group, resource, name }: Asked): string {
  return right({ verb: verb ?? '', group, resource, name })
}

/** What somebody else has made, with whatever rights. */
async function make({ url, token }: FakeKubernetes, path: string, object: object): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const made = await fetch(`${url}${path}`, { method: 'POST', headers, body: JSON.stringify(object) })
  if (!made.ok) throw new Error(await made.text())
}

test('only the worker has rights, in the sandboxes’ namespace, and none with a star in it', async () => {
  const { SANDMAN_KUBERNETES_NAMESPACE: namespace } = await readSettings()
  const all = await readManifests()
  expect(all.filter(({ kind }) => /^Cluster(Role|RoleBinding)$/.test(kind ?? ''))).toEqual([])
  const roles = all.filter(({ kind }) => kind === 'Role')
  expect(CASES.map(({ role }) => role).sort()).toEqual(roles.map(({ metadata }) => metadata?.name).sort())
  for (const { metadata } of roles) {
    expect(metadata?.namespace).toBe(namespace)
    const { roleRef, subjects } = await readManifest<V1RoleBinding>('RoleBinding', String(metadata?.name))
    expect(roleRef).toEqual({ apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: metadata?.name })
    expect(subjects).toEqual([{ kind: 'ServiceAccount', name: 'sandman-worker', namespace: 'sandman' }])
    for (const { apiGroups, resources, verbs } of await readRules(String(metadata?.name)))
      expect([...apiGroups, ...resources, ...verbs]).not.toContain('*')
  }
})
