import { randomBytes } from 'node:crypto'
import { onTestFinished } from 'vitest'
import { openAgentSandboxBackend } from '../../../src/backends/agent-sandbox/backend.ts'
import { MARK } from '../../../src/backends/agent-sandbox/resource.ts'
import type { Agent, Backend, Pausing, Sighting, Target, Wanted } from '../../../src/backends/backend.ts'
import type { KubernetesOptions } from '../../../src/backends/kubernetes/cluster.ts'
import type { Spec } from '../../../src/backends/spec.ts'
import type { KubeObject } from '../../support/kubernetes/objects.ts'
import { SANDBOXES } from '../../support/kubernetes/sandboxes.ts'
import type { FakeKubernetes } from '../../support/kubernetes/server.ts'
import { call, IDLING, nameOf, newId, startCluster } from '../kubernetes/setup.ts'

export { call, failure, IDLING, nameOf, newId, sh } from '../kubernetes/setup.ts'
export { MARK, SANDBOXES }

/** One cluster for all tests of a file. */
export const serving = (sandboxes: ('v1beta1' | 'v1alpha1')[], more: { extensions?: true; podSnapshots?: true } = {}) =>
  startCluster({ graceScale: 5, serve: { sandboxes, ...more } })

export type Awake = Target & { incarnation: string; name: string; own: Agent }

/** A fleet of its own, and short ways to try it. */
export async function openFleet(kubernetes: FakeKubernetes, options: Partial<KubernetesOptions> = {}): Promise<Fleet> {
  const fleet = options.fleet ?? `fleet-${randomBytes(4).toString('hex')}`
  const open = () =>
    openAgentSandboxBackend({
      namespace: kubernetes.namespace,
      connection: kubernetes.connect(),
      ...options,
      fleet,
    })
  const backend = await open()
  onTestFinished(async () => {
    kubernetes.heal()
    kubernetes.resumeController()
    await backend.close()
  })
  return new Fleet(kubernetes, backend, fleet)
}

export class Fleet {
  readonly kubernetes: FakeKubernetes
  readonly backend: Backend
  readonly name: string

  constructor(kubernetes: FakeKubernetes, backend: Backend, name: string) {
    this.kubernetes = kubernetes
    this.backend = backend
    this.name = name
  }

  get pausing(): Pausing {
    if (this.backend.pausing === 'none') throw new Error('it can pause')
    return this.backend.pausing
  }

  wanted(spec: Spec = {}, more: Partial<Wanted> = {}): Wanted {
    const owner = { sandboxId: newId('sbx'), life: newId('op') }
    const made = { template: 'sandman-test', ...spec }
    return { ...owner, spec: made, checkpointRef: undefined, ttlMs: 600_000, ...more }
  }

  /** One that runs. */
  async create(spec: Spec = {}): Promise<Awake> {
    const { ref } = await this.backend.create(this.wanted(spec), call())
    return this.awake(ref)
  }

  async awake(ref: string): Promise<Awake> {
    const seen = await this.look(ref)
    if (seen.is !== 'running') throw new Error(`${ref} is ${JSON.stringify(seen)}`)
    const { incarnation } = seen
    return { ref, incarnation, name: nameOf(ref), own: { ref, incarnation, key: undefined } }
  }

  /** One that somebody else has made, and that is this fleet's from now on. */
  async adopt(podSpec: object): Promise<Awake> {
    const { namespace } = this.kubernetes
    const name = newId('strange').replace('_', '-')
    const containers = [{ name: 'main', image: 'sandman-test', command: IDLING }]
    const object = { metadata: { name }, spec: { podTemplate: { spec: { containers, ...podSpec } } } }
    await this.ask('POST', `/apis/agents.x-k8s.io/v1beta1/namespaces/${namespace}/sandboxes`, {
      apiVersion: 'agents.x-k8s.io/v1beta1',
      kind: 'Sandbox',
      ...object,
    })
    await this.replaced(name, 'none')
    await this.backend.adopt(name, { sandboxId: newId('sbx'), life: newId('op') }, call())
    return this.awake(name)
  }

  look(ref: string): Promise<Sighting> {
    return this.backend.look(ref, call())
  }

  async suspend(target: Target, key = newId('op')): Promise<string> {
    const { checkpointRef } = await this.pausing.suspend(target, { key }, call())
    if (checkpointRef === undefined) throw new Error('it tells what it sleeps on')
    return checkpointRef
  }

  wake(ref: string, checkpointRef?: string): Promise<void> {
    return this.pausing.resume({ ref, checkpointRef }, { key: newId('op'), ttlMs: 600_000 }, call())
  }

  async resume(ref: string, checkpointRef?: string): Promise<Awake> {
    await this.wake(ref, checkpointRef)
    return this.awake(ref)
  }

  verify(checkpointRef: string) {
    return this.pausing.verify(checkpointRef, call())
  }

  end(ref: string, incarnation: string | null): Promise<void> {
    return this.backend.end({ ref, incarnation }, call())
  }

  async run(target: Target, command: string): Promise<string> {
    return (await this.backend.run(target, command, call())).output
  }

  /** As the cluster has it. */
  sandbox(name: string): KubeObject {
    const found = this.kubernetes.get(SANDBOXES, name)
    if (!found) throw new Error(`there is no ${name}`)
    return found
  }

  mark(name: string, mark: keyof typeof MARK): string | undefined {
    return this.sandbox(name).metadata.annotations?.[MARK[mark]]
  }

  /** As somebody else does it, with other tools. */
  ask(method: string, path: string, body?: object): Promise<Response> {
    const { server, token } = this.kubernetes.connect()
    const type = method === 'PATCH' ? 'application/merge-patch+json' : 'application/json'
    const headers = { authorization: `Bearer ${token}`, 'content-type': type }
    return fetch(`${server}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
  }

  patch(name: string, body: object): Promise<Response> {
    return this.ask(
      'PATCH',
      `/apis/agents.x-k8s.io/v1beta1/namespaces/${this.kubernetes.namespace}/sandboxes/${name}`,
      body,
    )
  }

  /** By somebody else: a pod, a volume claim. */
  delete(resource: string, name: string): Promise<Response> {
    return this.ask('DELETE', `/api/v1/namespaces/${this.kubernetes.namespace}/${resource}/${name}`)
  }

  /** Another pod than this runs there. */
  async replaced(name: string, uid: string): Promise<void> {
    const { kubernetes } = this
    const isReady = (pod: KubeObject | undefined) =>
      pod !== undefined && pod.metadata.uid !== uid && pod.status?.phase === 'Running'
    await kubernetes.when('pods', name, isReady)
  }
}
