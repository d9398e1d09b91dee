import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { load } from 'js-yaml'
import { expect, test } from 'vitest'
import { describeConfig } from '../../src/config.ts'
import {
  DEPLOY,
  PROCESSES,
  readContainer,
  readKustomization,
  readManifests,
  readRules,
  readSettings,
  type readTemplate,
} from '../support/manifests.ts'

const page = await readFile(path.join(DEPLOY, '../../docs/running-on-kubernetes.md'), 'utf8')
const BOTH = ['sandman-kubernetes-pod', 'sandman-agent-sandbox']

test('the page lists every right of a worker, and why', async () => {
  const listed = [...page.matchAll(/^\| `([\w./-]+)` \| ([a-z, ]+) \| (both|`[\w-]+`) \| .+ \|$/gm)].flatMap(
    ([, resource, verbs = '', of = '']) =>
      (of === 'both' ? BOTH : [of.replaceAll('`', '')]).flatMap((role) =>
        verbs.split(', ').map((verb) => `${role}: ${verb} ${resource}`),
      ),
  )
  const roles = (await readManifests()).filter(({ kind }) => kind === 'Role')
  const given = await Promise.all(
    roles
      .map((each) => String(each.metadata?.name))
      .map(async (role) =>
        (await readRules(role)).flatMap(({ apiGroups: [group = ''], resources, verbs }) =>
          resources.flatMap((resource) =>
            verbs.map((verb) => `${role}: ${verb} ${[resource, group].filter((word) => word !== '').join('.')}`),
          ),
        ),
      ),
  )
  expect(listed.sort()).toEqual(given.flat().sort())
})

test('its kustomization is about what is there', async () => {
  const own = load(/<!-- kustomization -->\n```yaml\n([\s\S]+?)```/.exec(page)?.[1] ?? '') as Awaited<
    ReturnType<typeof readKustomization>
  > & { configMapGenerator: { literals: string[] }[] }
  const base = await readKustomization()
  expect(own.resources.map((folder) => path.relative('sandman/deploy/kubernetes', folder))).toEqual(['', 'autoscaling'])
  expect(own.images).toMatchObject(base.images ?? [])
  const [generated] = own.configMapGenerator
  expect(generated).toMatchObject({ name: 'sandman', namespace: 'sandman', behavior: 'merge' })
  const known = describeConfig().map(({ name }) => name)
  for (const literal of generated?.literals ?? []) expect(known).toContain(literal.split('=')[0])
})

test('its patch for another cluster changes the container that there is, by a setting that there is', async () => {
  const [entry] = load(/<!-- patch -->\n```yaml\n([\s\S]+?)```/.exec(page)?.[1] ?? '') as {
    target: { kind: string; name: string }
    patch: string
  }[]
  const patch = load(entry?.patch ?? '') as {
    kind: string
    metadata: { name: string; namespace: string }
    spec: { template: Awaited<ReturnType<typeof readTemplate>> }
  }
  expect(entry?.target).toEqual({ kind: patch.kind, name: patch.metadata.name })
  expect(patch.metadata).toEqual({ name: 'sandman-worker', namespace: 'sandman' })
  const [container] = patch.spec.template.spec?.containers ?? []
  expect(container?.name).toBe((await readContainer('worker')).name)
  const names = container?.env?.map(({ name }) => name)
  expect(names).toEqual(['KUBECONFIG'])
  expect(describeConfig().map(({ name }) => name)).toContain('KUBECONFIG')
})

test('it names no file, object or setting that is not there', async () => {
  const objects = (await readManifests()).flatMap(({ metadata }) => [metadata?.name, metadata?.namespace])
  const containers = await Promise.all(PROCESSES.map(async (process) => (await readContainer(process)).name))
  const known = [...objects, ...containers, 'sandman-kubeconfig']
  for (const [name] of page.matchAll(/\bsandman-[a-z]+(-[a-z]+)*\b/g)) expect(known).toContain(name)
  const settings = [...describeConfig().map(({ name }) => name), ...Object.keys(await readSettings())]
  for (const [name] of page.matchAll(/\bSANDMAN_[A-Z_]*[A-Z]\b/g)) expect(settings).toContain(name)
  for (const [, file = ''] of page.matchAll(/`((?:autoscaling\/)?[\w.-]+\.(?:yaml|env))`/g))
    await expect(readFile(path.join(DEPLOY, file)), file).resolves.toBeDefined()
})
