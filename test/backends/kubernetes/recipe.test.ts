import { describe, expect, test } from 'vitest'
import { podSpecOf } from '../../../src/backends/kubernetes/recipe.ts'
import type { Spec } from '../../../src/backends/spec.ts'
import { environmentOf, expand } from '../../support/kubernetes/environment.ts'
import { Store } from '../../support/kubernetes/store.ts'

const WORKSPACE = { name: 'workspace', emptyDir: {} }

function recipe(spec: Spec = {}, podSpec: Record<string, unknown> = {}, hasSidecars = true) {
  const made = podSpecOf({ spec: { template: 'image', ...spec } }, { podSpec }, { hasSidecars, workspace: WORKSPACE })
  const [main, second] = made.containers
  if (!main) throw new Error('there is no container')
  return { ...made, main, second }
}

const COMMAND = ['sh', '-c', 'echo hello']
const withSidecar = { agent: { command: COMMAND, sidecar: { command: ['serve'], env: { PORT: '80' } } } }

describe('a pod', () => {
  test('is what Pod Security calls restricted', () => {
    const { securityContext, main, initContainers, hostNetwork, hostPID } = recipe(withSidecar)
    expect(securityContext).toMatchObject({
      runAsNonRoot: true,
      runAsUser: 1_000,
      seccompProfile: { type: 'RuntimeDefault' },
    })
    expect([hostNetwork, hostPID]).toEqual([undefined, undefined])
    expect(initContainers).toHaveLength(1)
    for (const { securityContext } of [main, ...(initContainers ?? [])])
      expect(securityContext).toEqual({
        allowPrivilegeEscalation: false,
        capabilities: { drop: ['ALL'] },
        readOnlyRootFilesystem: false,
      })
  })

  test('has no token of a service account, unless one is named for it', () => {
    expect(recipe().automountServiceAccountToken).toBe(false)
    expect(recipe({}, { serviceAccountName: 'agents' })).toMatchObject({
      serviceAccountName: 'agents',
      automountServiceAccountToken: true,
    })
    expect(
      recipe({}, { serviceAccountName: 'agents', automountServiceAccountToken: false }).automountServiceAccountToken,
    ).toBe(false)
  })

  test('never starts its containers again, whatever it is given besides', () => {
    expect(recipe().restartPolicy).toBe('Never')
    expect(recipe({}, { restartPolicy: 'Always' }).restartPolicy).toBe('Never')
  })

  test('has what it is given besides, and keeps what it needs itself', () => {
    const volume = { name: 'cache', emptyDir: {} }
    const made = recipe(withSidecar, {
      nodeSelector: { pool: 'agents' },
      tolerations: [{ key: 'agents' }],
      runtimeClassName: 'gvisor',
      imagePullSecrets: [{ name: 'registry' }],
      terminationGracePeriodSeconds: 5,
      securityContext: { runAsUser: 2_000 },
      volumes: [volume],
      initContainers: [{ name: 'fetch', image: 'fetcher' }],
      containers: [{ name: 'not-ours' }],
    })
    expect(made).toMatchObject({
      nodeSelector: { pool: 'agents' },
      tolerations: [{ key: 'agents' }],
      runtimeClassName: 'gvisor',
      imagePullSecrets: [{ name: 'registry' }],
      terminationGracePeriodSeconds: 5,
      securityContext: { runAsUser: 2_000, runAsNonRoot: true },
    })
    expect(made.volumes).toEqual([WORKSPACE, volume])
    expect(made.initContainers?.map(({ name }) => name)).toEqual(['fetch', 'tool-server'])
    expect(made.containers.map(({ name }) => name)).toEqual(['agent'])
  })

  test('has its tool server as a native sidecar where there are such, and as a second container elsewhere', () => {
    const modern = recipe(withSidecar)
    expect(modern.containers).toHaveLength(1)
    expect(modern.initContainers).toMatchObject([{ name: 'tool-server', restartPolicy: 'Always', command: ['serve'] }])
    const { main, second, initContainers } = recipe(withSidecar, {}, false)
    expect([main.name, second?.name, initContainers]).toEqual(['agent', 'tool-server', []])
    expect(second).not.toHaveProperty('restartPolicy')
    expect(second?.env).toEqual([
      { name: 'HOME', value: '/workspace' },
      { name: 'PORT', value: '80' },
    ])
  })

  test('has limits for each of its containers, and none that were not asked for', () => {
    const limits = { memoryBytesMax: 512 << 20, cpusMax: 0.25 }
    const { main, second } = recipe({ ...withSidecar, limits }, {}, false)
    for (const container of [main, second])
      expect(container?.resources).toEqual({ limits: { memory: String(512 << 20), cpu: '250m' } })
    expect(recipe().main.resources).toEqual({ limits: {} })
    expect(recipe({ limits: { cpusMax: 2 } }).main.resources).toEqual({ limits: { cpu: '2000m' } })
  })

  test('can write only to its workspace and its temporary files when its root is not to be written', () => {
    const { main, volumes } = recipe({ readOnlyRoot: true })
    expect(main.securityContext?.readOnlyRootFilesystem).toBe(true)
    expect(main.volumeMounts).toEqual([
      { name: 'workspace', mountPath: '/workspace' },
      { name: 'tmp', mountPath: '/tmp' },
    ])
    expect(volumes?.map(({ name }) => name)).toEqual(['workspace', 'tmp'])
  })

  test('cannot be made without an image', () => {
    const options = { hasSidecars: true, workspace: WORKSPACE }
    expect(() => podSpecOf({ spec: {} }, {}, options)).toThrow(/name one as `template`/)
  })
})

describe('what an agent is given', () => {
  const words = ['$HOME', '$$', '$(HOME)', '$$(HOME)', 'a$', '$(X', '`$(id)`', 'plain']

  test('is what it was, after Kubernetes has looked for variables in it', () => {
    const { main } = recipe({ agent: { command: ['run', ...words] } })
    const env = { HOME: '/root', X: 'x' }
    expect((main.command ?? []).map((word) => expand(word, env)).slice(-words.length)).toEqual(words)
  })

  test('in its environment is, too, and includes which pod it is', () => {
    const given = Object.fromEntries(words.map((word, at) => [`WORD_${at}`, word]))
    const { main } = recipe({ agent: { command: ['run'], env: { ...given, HOME: '/home/agent' } } })
    const metadata = { name: 'p', uid: 'the-uid', resourceVersion: '1', creationTimestamp: '' }
    const pod = { apiVersion: 'v1', kind: 'Pod', metadata }
    const env = environmentOf(new Store(), pod, main as Parameters<typeof environmentOf>[2])
    expect(env).toEqual({ HOSTNAME: 'p', ...given, HOME: '/home/agent', SANDMAN_ROOT: 'the-uid' })
  })

  test('says it is to end before its container is killed; what only idles hears that by itself', () => {
    expect(recipe({ agent: { command: ['run'] } }).main.lifecycle?.preStop?.exec?.command?.[0]).toBe('sh')
    expect(recipe().main.lifecycle).toBeUndefined()
  })
})
