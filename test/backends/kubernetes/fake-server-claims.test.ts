import { expect, test } from 'vitest'
import { CLAIMS, POOLS } from '../../support/kubernetes/extensions.ts'
import { conditionOf, type Json, type KubeObject } from '../../support/kubernetes/objects.ts'
import { SANDBOXES } from '../../support/kubernetes/sandboxes.ts'
import { as, gone, refusal, setup as setupCluster, sh } from './fake-setup.ts'

async function setup() {
  const all = await setupCluster({ graceScale: 5, serve: { sandboxes: ['v1beta1'], extensions: true } })
  const { custom, namespace, cluster } = all
  const at = { group: 'extensions.agents.x-k8s.io', version: 'v1beta1', namespace }
  const make = (plural: string, kind: string, name: string, spec: Json) => {
    const body = { apiVersion: `${at.group}/${at.version}`, kind, metadata: { name }, spec }
    return custom.createNamespacedCustomObject({ ...at, plural, body }) as Promise<KubeObject>
  }
  const template = (name: string, more: Json = {}) =>
    make('sandboxtemplates', 'SandboxTemplate', name, {
      podTemplate: { metadata: { labels: { app: 'x' } }, spec: { containers: [sh('agent', 'sleep 1000')] } },
      ...more,
    })
  const pool = (name: string, replicas: number, more: Json = {}) =>
    make('sandboxwarmpools', 'SandboxWarmPool', name, { replicas, sandboxTemplateRef: { name: 't' }, ...more })
  const claim = (name: string, more: Json = {}) =>
    make('sandboxclaims', 'SandboxClaim', name, { warmPoolRef: { name: 'p' }, ...more })
  const stocked = (replicas: number) =>
    cluster.when(POOLS, 'p', (pool) => pool?.status?.readyReplicas === replicas && pool.status.replicas === replicas)
  const bound = (name: string, reason = 'DependenciesReady') =>
    cluster.when(
      CLAIMS,
      name,
      (claim) => claim !== undefined && conditionOf(claim, 'Ready')?.reason === reason,
    ) as Promise<KubeObject>
  const sandboxOf = (claim: KubeObject) => {
    const { name = '' } = (claim.status?.sandbox ?? {}) as { name?: string }
    return cluster.get(SANDBOXES, name) as KubeObject
  }
  return { ...all, at, template, pool, claim, stocked, bound, sandboxOf }
}

test('a pool keeps as many ready as it is to have', async () => {
  const { cluster, template, pool, stocked, custom, at } = await setup()
  await pool('p', 2)
  expect(cluster.list(SANDBOXES)).toEqual([])
  await template('t')
  await stocked(2)
  const [one] = cluster.list(SANDBOXES)
  expect(one?.metadata.name).toMatch(/^p-[a-z0-9]{5}$/)
  expect(one?.metadata.ownerReferences).toMatchObject([{ kind: 'SandboxWarmPool', name: 'p', controller: true }])
  const scale = (replicas: number) =>
    custom.patchNamespacedCustomObjectScale(
      { ...at, plural: 'sandboxwarmpools', name: 'p', body: { spec: { replicas } } },
      as('MergePatch'),
    )
  await scale(3)
  await stocked(3)
  await scale(0)
  await stocked(0)
})

test('a claim takes one over that runs on under its own name, and the pool gets another', async () => {
  const { cluster, template, pool, stocked, claim, bound, sandboxOf, custom, at } = await setup()
  await template('t')
  await pool('p', 1)
  await stocked(1)
  const [waiting] = cluster.list('pods')
  await claim('c', { additionalPodMetadata: { labels: { owner: 'me' } } })
  const made = await bound('c')
  const sandbox = sandboxOf(made)
  expect(sandbox.metadata).toMatchObject({
    name: waiting?.metadata.name,
    ownerReferences: [{ kind: 'SandboxClaim', name: 'c', uid: made.metadata.uid, controller: true }],
    labels: { 'agents.x-k8s.io/launch-type': 'warm', 'agents.x-k8s.io/claim-uid': made.metadata.uid },
  })
  expect(made.metadata.annotations).toMatchObject({ 'agents.x-k8s.io/sandbox-name': sandbox.metadata.name })
  expect(made.status?.sandbox).toEqual({ name: sandbox.metadata.name, podIPs: ['127.0.0.1'] })
  const pod = await cluster.when('pods', sandbox.metadata.name, (pod) => pod?.metadata.labels?.owner === 'me')
  expect(pod?.metadata).toMatchObject({ uid: waiting?.metadata.uid, labels: { app: 'x' } })
  await stocked(1)
  await custom.deleteNamespacedCustomObject({ ...at, plural: 'sandboxclaims', name: 'c' })
  await gone(cluster, sandbox.metadata.name, SANDBOXES)
  await gone(cluster, sandbox.metadata.name)
  expect(cluster.list(SANDBOXES)).toHaveLength(1)
})

test('two claims at once take two, or have one made', async () => {
  const { template, pool, stocked, claim, bound, sandboxOf } = await setup()
  await template('t')
  await pool('p', 1)
  await stocked(1)
  await Promise.all([claim('c'), claim('d')])
  const [one, two] = [await bound('c'), await bound('d')].map(sandboxOf)
  expect(one?.metadata.uid).not.toBe(two?.metadata.uid)
})

test('a claim with something of its own has one made, if the template allows that', async () => {
  const { cluster, template, pool, stocked, claim, bound, sandboxOf } = await setup()
  await template('t', { envVarsInjectionPolicy: 'Allowed' })
  await pool('p', 1)
  await stocked(1)
  await claim('c', { env: [{ name: 'COLOUR', value: 'red' }] })
  const sandbox = sandboxOf(await bound('c'))
  expect(sandbox.metadata).toMatchObject({ name: 'c', labels: { 'agents.x-k8s.io/launch-type': 'cold' } })
  expect(cluster.get('pods', 'c')?.spec?.containers).toMatchObject([{ env: [{ name: 'COLOUR', value: 'red' }] }])
  await claim('d', { volumeClaimTemplates: [{ metadata: { name: 'home' }, spec: {} }] })
  await bound('d', 'VolumeClaimTemplatesError')
})

test('a claim says what it waits for', async () => {
  const { template, pool, claim, bound, cluster } = await setup()
  await claim('c')
  expect(conditionOf(await bound('c', 'WarmPoolNotFound'), 'Ready')?.message).toBe('SandboxWarmPool "p" not found')
  await pool('p', 0)
  await bound('c', 'TemplateNotFound')
  await template('t')
  await bound('c')
  expect(cluster.get(SANDBOXES, 'c')).toBeDefined()
  expect(await refusal(claim('d', { warmPoolRef: undefined }))).toMatchObject({ code: 422 })
})

test('a claim whose sandbox is deleted has another, and is asleep with the one it has', async () => {
  const { template, pool, claim, bound, sandboxOf, custom, at, cluster } = await setup()
  await template('t')
  await pool('p', 0)
  await claim('c')
  const before = sandboxOf(await bound('c'))
  const its = { ...at, group: 'agents.x-k8s.io', plural: 'sandboxes', name: 'c' }
  await custom.patchNamespacedCustomObject({ ...its, body: { spec: { operatingMode: 'Suspended' } } }, as('MergePatch'))
  await bound('c', 'SandboxSuspended')
  await custom.deleteNamespacedCustomObject(its)
  await cluster.when(SANDBOXES, 'c', (sandbox) => sandbox !== undefined && sandbox.metadata.uid !== before.metadata.uid)
  await bound('c')
})

test.each(['Retain', 'Delete', 'DeleteForeground'])(
  'a claim that has expired loses its sandbox (%s)',
  async (shutdownPolicy) => {
    const { template, pool, claim, bound, cluster } = await setup()
    await template('t')
    await pool('p', 0)
    const shutdownTime = new Date(Date.now() + 60_000).toISOString()
    await claim('c', { lifecycle: { shutdownTime, shutdownPolicy } })
    await bound('c')
    cluster.advance(61_000)
    await gone(cluster, 'c', SANDBOXES)
    if (shutdownPolicy === 'Retain')
      await cluster.when(
        CLAIMS,
        'c',
        (claim) => Object.keys((claim?.status?.sandbox ?? { x: 1 }) as object).length === 0,
      )
    else await gone(cluster, 'c', CLAIMS)
  },
)
