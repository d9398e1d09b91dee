import type { V1RoleBinding } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import type { Asked } from '../support/kubernetes/requests.ts'
import { FakeKubernetes } from '../support/kubernetes/server.ts'
import { type RoleRule, readManifest, readManifests, readRules, readSettings } from '../support/manifests.ts'
import { type Life, liveThrough } from './every-method.ts'
import { CASES, type Case, IMAGE, type Other, SINCE } from './rbac-cases.ts'

type Lived = Life & { requests: Asked[] }

/** A life with nothing allowed but this. */
async function live({ open, cluster: given, options, spec, others }: Case, rules: RoleRule[]): Promise<Lived> {
  const { SANDMAN_KUBERNETES_NAMESPACE: namespace = '' } = await readSettings()
  const cluster = await FakeKubernetes.start({ namespace, images: new Set([IMAGE]), ...given })
  try {
    for (const other of others) await make(cluster, other)
    cluster.requests.clear()
    cluster.allow(rules)
    const opened = await open({ fleet: 'default', namespace, connection: cluster.connect(), ...options })
    const life = await liveThrough(opened, { spec, adopted: 'strange' }).finally(() => opened.close())
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

async function make({ url, token, namespace }: FakeKubernetes, { api, resource, object }: Other): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const path = `${url}${api}/namespaces/${namespace}/${resource}`
  const made = await fetch(path, { method: 'POST', headers, body: JSON.stringify(object) })
  if (!made.ok) throw new Error(await made.text())
}
