import { PassThrough, Writable } from 'node:stream'
import { text } from 'node:stream/consumers'
import {
  ApiException,
  CoreV1Api,
  CustomObjectsApi,
  Exec,
  KubeConfig,
  Log,
  type LogOptions,
  PatchStrategy,
  setHeaderOptions,
  type V1Pod,
  type V1Status,
  Watch,
} from '@kubernetes/client-node'
import { expect, onTestFinished } from 'vitest'
import type { KubeObject } from '../../support/kubernetes/objects.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../../support/kubernetes/server.ts'

/** A cluster of its own, and the SDK on it. */
export async function setup(options?: FakeKubernetesOptions) {
  const cluster = await FakeKubernetes.start(options)
  onTestFinished(() => cluster.stop())
  const config = configOf(cluster)
  const core = config.makeApiClient(CoreV1Api)
  const custom = config.makeApiClient(CustomObjectsApi)
  const { namespace } = cluster
  const create = (name: string, spec: Partial<PodSpec> = {}, metadata: V1Pod['metadata'] = {}) =>
    core.createNamespacedPod({ namespace, body: pod(name, spec, metadata) })
  const read = (name: string) => core.readNamespacedPod({ name, namespace })
  /** Created, and seen to run. */
  const run = async (name: string, script: string, spec: Partial<PodSpec> = {}) => {
    await create(name, { containers: [sh('agent', script)], ...spec })
    return running(cluster, name)
  }
  const fetched = (path: string, init: RequestInit = {}) =>
    fetch(`${cluster.url}${path}`, { ...init, headers: { authorization: `Bearer ${cluster.token}`, ...init.headers } })
  return { cluster, config, core, custom, namespace, create, read, run, fetch: fetched }
}

type PodSpec = NonNullable<V1Pod['spec']>

export function configOf({ url, token }: { url: string; token: string }): KubeConfig {
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'fake', server: url, skipTLSVerify: true }, { name: 'fake', token })
  return config
}

export const sh = (name: string, script: string) => ({ name, image: 'sandman-test', command: ['sh', '-c', script] })

export function pod(name: string, spec: Partial<PodSpec> = {}, metadata: V1Pod['metadata'] = {}): V1Pod {
  return {
    metadata: { name, ...metadata },
    spec: { restartPolicy: 'Never', containers: [sh('agent', 'sleep 1000')], ...spec },
  }
}

export const running = (cluster: FakeKubernetes, name: string) =>
  cluster.when('pods', name, (pod) => pod?.status?.phase === 'Running')

export const gone = (cluster: FakeKubernetes, name: string, resource = 'pods') =>
  cluster.when(resource, name, (object) => object === undefined)

/** A command through the SDK, to its end. */
export async function exec(config: KubeConfig, name: string, script: string, input?: string) {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()]
  const stdin = input === undefined ? null : new PassThrough()
  const status = Promise.withResolvers<V1Status>()
  const command = ['sh', '-c', script]
  const socket = await new Exec(config).exec(
    'agents',
    name,
    'agent',
    command,
    stdout,
    stderr,
    stdin,
    false,
    status.resolve,
  )
  stdin?.end(input)
  const [out, error, told] = await Promise.all([text(stdout), text(stderr), status.promise])
  return { stdout: out, stderr: error, status: told, socket }
}

/** What a call of the SDK fails with: the code, and what the server has said. */
export async function refusal(
  call: Promise<unknown>,
): Promise<{ code: number; reason?: string; message?: string; details?: unknown }> {
  const error = await call.then(
    (result) => expect.unreachable(`it succeeded: ${JSON.stringify(result)}`),
    (error: unknown) => error,
  )
  if (!(error instanceof ApiException)) throw error
  const body = String(error.body)
  const told = body.startsWith('{') ? JSON.parse(body) : { message: body }
  return { ...told, code: error.code }
}

type Seen = { type: string; object: KubeObject }

/** What a watch of the SDK is told, in order. */
export async function watch(config: KubeConfig, path: string, query: Record<string, string> = {}) {
  const events: Seen[] = []
  const done = Promise.withResolvers<unknown>()
  const controller = await new Watch(config).watch(
    path,
    query,
    (type, object) => events.push({ type, object }),
    done.resolve,
  )
  onTestFinished(() => controller.abort())
  return { events, done: done.promise }
}

/** A log that is followed by the SDK, as far as it has come. */
export async function follow(config: KubeConfig, name: string, options: LogOptions = { follow: true }) {
  const chunks: string[] = []
  const into = new Writable({ write: (chunk, _, done) => done(void chunks.push(String(chunk)) as undefined) })
  const ended = new Promise<void>((resolve) => into.on('finish', resolve))
  await new Log(config).log('agents', name, 'agent', into, options)
  return { text: () => chunks.join(''), ended }
}

export const as = (type: keyof typeof PatchStrategy) => setHeaderOptions('Content-Type', PatchStrategy[type])
