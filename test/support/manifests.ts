import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { parseEnv } from 'node:util'
import type {
  KubernetesObject,
  V1Container,
  V1Deployment,
  V1Job,
  V1PodTemplateSpec,
  V1Role,
} from '@kubernetes/client-node'
import { load, loadAll } from 'js-yaml'

export const DEPLOY = path.resolve(import.meta.dirname, '../../deploy/kubernetes')

export type Manifest = KubernetesObject & Record<string, unknown> & { file: string; raw: object }

/** Every object in `deploy/kubernetes`, whether it is applied or an example. What says how they are applied is not among them. */
export async function readManifests(): Promise<Manifest[]> {
  const files = (await readdir(DEPLOY, { recursive: true })).filter((file) => file.endsWith('.yaml')).sort()
  const read = await Promise.all(
    files
      .filter((file) => path.basename(file) !== 'kustomization.yaml')
      .map(async (file) => {
        const objects = loadAll(await readFile(path.join(DEPLOY, file), 'utf8')) as KubernetesObject[]
        return objects.map((raw) => ({ ...raw, file, raw }) as Manifest)
      }),
  )
  return read.flat()
}

/** By its kind and name; typed as the SDK has it. */
export async function readManifest<T extends KubernetesObject>(kind: string, name: string): Promise<T> {
  const found = (await readManifests()).filter((each) => each.kind === kind && each.metadata?.name === name)
  if (found.length !== 1) throw new Error(`there are ${found.length} of ${kind} ${name}`)
  return found[0]?.raw as T
}

type Kustomization = {
  resources: string[]
  images?: { name: string; newTag: string }[]
  configMapGenerator?: { name: string; namespace: string; envs: string[] }[]
}

export async function readKustomization(folder = '.'): Promise<Kustomization> {
  return load(await readFile(path.join(DEPLOY, folder, 'kustomization.yaml'), 'utf8')) as Kustomization
}

/** What the generated ConfigMap has. */
export async function readSettings(): Promise<Record<string, string>> {
  return parseEnv(await readFile(path.join(DEPLOY, 'settings.env'), 'utf8')) as Record<string, string>
}

export type RoleRule = { apiGroups: string[]; resources: string[]; verbs: string[]; resourceNames?: string[] }

/** What whoever has these roles may do. */
export async function readRules(...roles: string[]): Promise<RoleRule[]> {
  const read = await Promise.all(roles.map((name) => readManifest<V1Role>('Role', name)))
  return read.flatMap(({ rules = [] }) => rules as RoleRule[])
}

/** As the Procfile calls them, but for `release`. */
export const PROCESSES = ['migrate', 'web', 'worker'] as const
export type ProcessName = (typeof PROCESSES)[number]

export async function readTemplate(process: ProcessName): Promise<V1PodTemplateSpec> {
  const kind = process === 'migrate' ? 'Job' : 'Deployment'
  const { spec } = await readManifest<V1Deployment | V1Job>(kind, `sandman-${process}`)
  if (!spec) throw new Error(`${process} has no pods`)
  return spec.template
}

/** There is one in each. */
export async function readContainer(process: ProcessName): Promise<V1Container> {
  const [container, ...others] = (await readTemplate(process)).spec?.containers ?? []
  if (!container || others.length > 0) throw new Error(`${process} has not one container, but ${others.length + 1}`)
  return container
}
