import { readdir } from 'node:fs/promises'
import path from 'node:path'
import { dumpYaml, loadYaml, type V1Secret, type V1Service } from '@kubernetes/client-node'
import { dump, load } from 'js-yaml'
import { describe, expect, test } from 'vitest'
import { describeConfig, parseConfig } from '../../src/config.ts'
import { VERSION } from '../../src/version.ts'
import {
  DEPLOY,
  type Manifest,
  PROCESSES,
  type ProcessName,
  readContainer,
  readKustomization,
  readManifest,
  readManifests,
  readSettings,
  readTemplate,
} from '../support/manifests.ts'

/** What the SDK has a type for, in the version that is served by every Kubernetes that is still maintained. */
const BUILT_IN: Record<string, string> = {
  Namespace: 'v1',
  ServiceAccount: 'v1',
  Secret: 'v1',
  Service: 'v1',
  Deployment: 'apps/v1',
  Job: 'batch/v1',
  HorizontalPodAutoscaler: 'autoscaling/v2',
  PodDisruptionBudget: 'policy/v1',
  NetworkPolicy: 'networking.k8s.io/v1',
  Role: 'rbac.authorization.k8s.io/v1',
  RoleBinding: 'rbac.authorization.k8s.io/v1',
}
const OF_KEDA: Record<string, string> = {
  ScaledObject: 'keda.sh/v1alpha1',
  TriggerAuthentication: 'keda.sh/v1alpha1',
}

const all = await readManifests()
const settings = await readSettings()
const named = ({ kind, metadata }: Manifest) => `${kind} ${metadata?.namespace ?? ''}/${metadata?.name}`
const builtIn = all.filter(({ kind }) => kind !== undefined && kind in BUILT_IN)

describe('every object', () => {
  test('is of a kind and version that there is', () => {
    for (const { kind = '', apiVersion, file } of all) {
      expect.soft(apiVersion, `${kind} in ${file}`).toBe({ ...BUILT_IN, ...OF_KEDA }[kind])
    }
    const bases = all.filter(({ file }) => !file.includes('/'))
    expect(bases.filter(({ kind = '' }) => kind in OF_KEDA)).toEqual([])
  })

  test.each(builtIn.map((each) => [named(each), each.raw] as const))(
    '%s has only fields that such a thing has',
    (_name, raw) => {
      expect(load(dumpYaml(loadYaml(dump(raw))))).toEqual(raw)
    },
  )

  test('is there once, in a namespace that is made', () => {
    expect(new Set(all.map(named)).size).toBe(all.length)
    const namespaces = all.filter(({ kind }) => kind === 'Namespace').map(({ metadata }) => metadata?.name)
    for (const each of all)
      if (each.kind !== 'Namespace') expect(namespaces, named(each)).toContain(each.metadata?.namespace)
  })

  test('says whose it is', () => {
    const applied = all.filter(({ file }) => !file.endsWith('.example.yaml'))
    for (const { metadata } of applied)
      expect(metadata?.labels, metadata?.name).toMatchObject({ 'app.kubernetes.io/name': 'sandman' })
  })
})

describe('the kustomizations', () => {
  test.each(['.', 'autoscaling'])('apply every file in %s, but for examples', async (folder) => {
    const files = (await readdir(path.join(DEPLOY, folder))).filter((file) => file.endsWith('.yaml'))
    const applied = files.filter((file) => file !== 'kustomization.yaml' && !file.endsWith('.example.yaml'))
    const { resources } = await readKustomization(folder)
    expect([...resources].sort()).toEqual(applied.sort())
  })

  test('name the one image that all processes are, with the version of this release', async () => {
    const { images } = await readKustomization()
    expect(images).toEqual([{ name: 'sandman', newTag: VERSION }])
    for (const process of PROCESSES) expect((await readContainer(process)).image).toBe('sandman')
  })

  test('bring no secrets', () => {
    expect(all.filter(({ kind, file }) => kind === 'Secret' && !file.endsWith('.example.yaml'))).toEqual([])
  })
})

describe('the settings', () => {
  test('of every process are what the configuration takes', async () => {
    const known = describeConfig().map(({ name }) => name)
    const { stringData: secret = {} } = await readManifest<V1Secret>('Secret', 'sandman')
    for (const process of PROCESSES) {
      const { env = [], envFrom = [] } = await readContainer(process)
      for (const { name } of env) expect(known).toContain(name)
      const given = envFrom.length > 0 ? settings : {}
      const { databaseUrl, kubernetes, backends } = parseConfig({
        ...given,
        ...Object.fromEntries(env.map(({ name }) => [name, secret[name]])),
      })
      expect(databaseUrl).toBe(secret.DATABASE_URL)
      if (process === 'worker') {
        expect(backends).toEqual(['kubernetes-pod'])
        expect(kubernetes.namespace).toBe('sandman-sandboxes')
      }
    }
  })

  test('come from keys that the secret and the generated config have', async () => {
    const { configMapGenerator } = await readKustomization()
    expect(configMapGenerator).toMatchObject([{ name: 'sandman', namespace: 'sandman', envs: ['settings.env'] }])
    const { stringData: secret = {} } = await readManifest<V1Secret>('Secret', 'sandman')
    for (const process of PROCESSES) {
      const { env = [], envFrom = [] } = await readContainer(process)
      for (const { name, valueFrom } of env) {
        expect(valueFrom?.secretKeyRef).toMatchObject({ name: 'sandman', key: name })
        expect(Object.keys(secret)).toContain(name)
      }
      if (process !== 'migrate') expect(envFrom).toEqual([{ configMapRef: { name: 'sandman' } }])
    }
  })

  test('that are secret go where they are needed', async () => {
    const keysOf = async (process: ProcessName) =>
      (await readContainer(process)).env?.map(({ name, valueFrom }) =>
        valueFrom?.secretKeyRef?.optional ? `${name}?` : name,
      )
    expect(await keysOf('web')).toEqual(['DATABASE_URL', 'REDIS_URL?', 'SANDMAN_TOKENS'])
    expect(await keysOf('worker')).toEqual(['DATABASE_URL', 'REDIS_URL?'])
    expect(await keysOf('migrate')).toEqual(['DATABASE_URL', 'REDIS_URL?'])
  })

  test('are not mixed with what Kubernetes makes of Services, which would be refused', async () => {
    const { metadata } = await readManifest<V1Service>('Service', 'sandman-web')
    const variable = `${metadata?.name?.toUpperCase().replaceAll('-', '_')}_SERVICE_HOST`
    expect(() => parseConfig({ [variable]: '10.0.0.1' })).toThrow(`${variable}: is not a setting`)
    for (const process of PROCESSES) expect((await readTemplate(process)).spec?.enableServiceLinks).toBe(false)
  })
})
