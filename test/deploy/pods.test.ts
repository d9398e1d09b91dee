import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type {
  V1Deployment,
  V1HorizontalPodAutoscaler,
  V1LabelSelector,
  V1PodDisruptionBudget,
  V1Service,
  V1ServiceAccount,
} from '@kubernetes/client-node'
import { describe, expect, test } from 'vitest'
import { parseConfig } from '../../src/config.ts'
import { DEPLOY, PROCESSES, readContainer, readManifest, readSettings, readTemplate } from '../support/manifests.ts'

const root = path.resolve(DEPLOY, '../..')

describe.each(PROCESSES)('the pods of %s', (process) => {
  test('run what the Procfile says, as the image starts it', async () => {
    const procfile = await readFile(path.join(root, 'Procfile'), 'utf8')
    const lines = procfile.trim().split('\n')
    const commands = Object.fromEntries(lines.map((line) => line.split(': ') as [string, string]))
    const { command, args = [] } = await readContainer(process)
    expect(command).toBeUndefined()
    expect(`node src/main.ts ${args.join(' ')}`).toBe(commands[process === 'migrate' ? 'release' : process])
  })

  test('are restricted, write nothing and say what they need', async () => {
    const { spec } = await readTemplate(process)
    expect(spec?.securityContext).toEqual({
      runAsNonRoot: true,
      runAsUser: 1_000,
      runAsGroup: 1_000,
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect(spec).not.toHaveProperty('volumes')
    const { securityContext, resources } = await readContainer(process)
    expect(securityContext).toEqual({
      allowPrivilegeEscalation: false,
      readOnlyRootFilesystem: true,
      capabilities: { drop: ['ALL'] },
    })
    const some = expect.stringMatching(/^\d+[A-Za-z]+$/)
    expect(resources).toEqual({ requests: { cpu: some, memory: some }, limits: { memory: some } })
  })

  test('have an account of their own, and a token only if they talk to Kubernetes', async () => {
    const { spec } = await readTemplate(process)
    const account = await readManifest<V1ServiceAccount>('ServiceAccount', spec?.serviceAccountName ?? '')
    expect(account.metadata).toMatchObject({ name: `sandman-${process}`, namespace: 'sandman' })
    expect(account.automountServiceAccountToken).toBe(false)
    expect(spec?.automountServiceAccountToken).toBe(process === 'worker')
  })
})

describe.each(['web', 'worker'] as const)('all that selects pods of %s', (process) => {
  test('means its own, and no others', async () => {
    const labels = (await readTemplate(process)).metadata?.labels
    expect(labels).toEqual({ 'app.kubernetes.io/name': 'sandman', 'app.kubernetes.io/component': process })
    const { spec } = await readManifest<V1Deployment>('Deployment', `sandman-${process}`)
    const budget = await readManifest<V1PodDisruptionBudget>('PodDisruptionBudget', `sandman-${process}`)
    const spread = spec?.template.spec?.topologySpreadConstraints ?? []
    expect(spread.map(({ topologyKey }) => topologyKey)).toEqual([
      'kubernetes.io/hostname',
      'topology.kubernetes.io/zone',
    ])
    const selectors: (V1LabelSelector | undefined)[] = [
      spec?.selector,
      budget.spec?.selector,
      ...spread.map(({ labelSelector }) => labelSelector),
    ]
    for (const selector of selectors) expect(selector).toEqual({ matchLabels: labels })
    expect(budget.spec).toMatchObject({ maxUnavailable: 1, unhealthyPodEvictionPolicy: 'AlwaysAllow' })
  })
})

test('the Service leads to a port of the web process', async () => {
  const { spec } = await readManifest<V1Service>('Service', 'sandman-web')
  expect(spec?.selector).toEqual((await readTemplate('web')).metadata?.labels)
  const { ports = [] } = await readContainer('web')
  expect(ports.map(({ name }) => name)).toEqual(spec?.ports?.map(({ targetPort }) => targetPort))
})

test('what scales names what there is, which leaves the number to it', async () => {
  const scalers = [
    await readManifest<V1HorizontalPodAutoscaler>('HorizontalPodAutoscaler', 'sandman-web'),
    await readManifest<V1HorizontalPodAutoscaler>('ScaledObject', 'sandman-worker'),
  ]
  for (const { metadata, spec } of scalers) {
    const { apiVersion, kind = '', name = '' } = spec?.scaleTargetRef ?? {}
    const target = await readManifest<V1Deployment>(kind, name)
    expect(target).toMatchObject({ apiVersion, metadata: { namespace: metadata?.namespace } })
    expect(target.spec).not.toHaveProperty('replicas')
  }
})

describe('stopping', () => {
  const RESERVE_MS = 5_000

  test('takes no longer than Kubernetes allows', async () => {
    const { graceMs } = parseConfig(await readSettings())
    const { lifecycle } = await readContainer('web')
    const waitedMs = Number(/(\d+)\)$/.exec(lifecycle?.preStop?.exec?.command?.at(-1) ?? '')?.[1])
    expect(waitedMs).toBeGreaterThan(0)
    const [web, worker] = [await readTemplate('web'), await readTemplate('worker')]
    expect(web.spec?.terminationGracePeriodSeconds).toBe((waitedMs + graceMs + RESERVE_MS) / 1_000)
    expect(await readContainer('worker')).not.toHaveProperty('lifecycle')
    expect(worker.spec?.terminationGracePeriodSeconds).toBe((graceMs + RESERVE_MS) / 1_000)
  })

  test('for another release leaves no fewer pods than there were', async () => {
    for (const process of ['web', 'worker'] as const) {
      const { spec } = await readManifest<V1Deployment>('Deployment', `sandman-${process}`)
      expect(spec?.strategy?.rollingUpdate).toEqual({ maxSurge: 1, maxUnavailable: 0 })
    }
  })
})
