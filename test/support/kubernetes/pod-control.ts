import { setTimeout as sleep } from 'node:timers/promises'
import type { Cluster } from './cluster.ts'
import { deleteObject } from './deletion.ts'
import type { Draft, Json, KubeObject } from './objects.ts'
import type { PodWorker } from './pod-worker.ts'
import type { Container } from './runtime/runtime.ts'
import { plantedObject, seededPod } from './seeds.ts'
import type { Verdict } from './slot.ts'

const WHEN_MS_MAX = 20_000

/** What a test can see of a cluster, and do to the pods in it, past the API. Names are of the cluster's own namespace. */
export class PodControl {
  readonly cluster: Cluster

  constructor(cluster: Cluster) {
    this.cluster = cluster
  }

  // What is true.

  get(resource: string, name: string): KubeObject | undefined {
    return this.cluster.store.get(resource, this.cluster.options.namespace, name)
  }

  list(resource: string): KubeObject[] {
    return this.cluster.store.list(resource, this.cluster.options.namespace)
  }

  /** As soon as it is so; with undefined, as soon as it is gone. */
  async when(
    resource: string,
    name: string,
    isSo: (object: KubeObject | undefined) => boolean,
  ): Promise<KubeObject | undefined> {
    const seen = Promise.withResolvers<KubeObject | undefined>()
    const look = () => isSo(this.get(resource, name)) && seen.resolve(this.get(resource, name))
    const unsubscribe = this.cluster.store.onChange(look)
    const giveUp = new AbortController()
    const late = sleep(WHEN_MS_MAX, undefined, { signal: giveUp.signal, ref: false }).then(() => {
      throw new Error(`${resource} ${name} never came to be so: ${JSON.stringify(this.get(resource, name), null, 1)}`)
    })
    look()
    return Promise.race([seen.promise, late]).finally(() => {
      unsubscribe()
      giveUp.abort()
      late.catch(() => {})
    })
  }

  /** The container that is in there now, or was last. */
  container(pod: string, name: string): Container {
    const container = this.#worker(pod).slot(name)?.container
    if (!container) throw new Error(`there is no container ${name} in ${pod}`)
    return container
  }

  /** Of all containers of a pod. */
  pidsOf(pod: string): number[] {
    return this.#worker(pod).containers.flatMap(({ pids }) => pids)
  }

  /** Behind a claim. */
  folderOfClaim(name: string): string {
    const claim = this.get('persistentvolumeclaims', name)
    if (!claim) throw new Error(`there is no claim ${name}`)
    return this.cluster.volumes.folderOfClaim(claim.metadata.uid)
  }

  // Time.

  get nowMs(): number {
    return this.cluster.nowMs
  }

  advance(ms: number): void {
    this.cluster.advance(ms)
  }

  // What happens to pods.

  set schedulable(isSchedulable: boolean) {
    this.cluster.node.isSchedulable = isSchedulable
    this.cluster.node.bell.ring()
  }

  addImage(name: string): void {
    this.cluster.node.images.add(name)
    this.cluster.node.bell.ring()
  }

  /** So long is the end of a container not told after the end of its output. */
  lagStatus(ms: number): void {
    this.cluster.node.statusLagMs = ms
  }

  /** Only said, and not so: nothing happens to what runs. It stands until the kubelet has something to say again. */
  setPhase(pod: string, phase: string, more: Json = {}): void {
    this.#changeStatus(pod, (status) => ({ ...status, ...more, phase }))
  }

  /** A container ends, and this is told of it. */
  terminateContainer(pod: string, name: string, verdict: Verdict = {}): Promise<void> {
    return this.#worker(pod).endContainer(name, { exitCode: 137, reason: 'Error', ...verdict }, false)
  }

  /** It ends and begins again, whatever the pod's policy says. */
  restartContainer(pod: string, name: string, verdict: Verdict = {}): Promise<void> {
    return this.#worker(pod).endContainer(name, { exitCode: 137, reason: 'Error', ...verdict }, true)
  }

  /** As when its node has run short of something. */
  async evict(pod: string, { dropStatuses = false }: { dropStatuses?: boolean } = {}): Promise<void> {
    const message = 'The node was low on resource: memory. Threshold quantity: 100Mi, available: 40Mi. '
    const disruption = { type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet', message } as const
    const worker = this.#worker(pod)
    await worker.end({ phase: 'Failed', reason: 'Evicted', message, dropStatuses }, disruption)
    if (dropStatuses) return
    const unknown = {
      exitCode: 137,
      reason: 'ContainerStatusUnknown',
      message: 'The container could not be located when the pod was terminated',
      startedAt: null,
      finishedAt: null,
    }
    this.#changeStatus(pod, (status) => ({
      ...status,
      containerStatuses: (status.containerStatuses as Json[]).map((one) => ({
        ...one,
        state: { terminated: unknown },
      })),
    }))
  }

  /** What runs there runs on, and nobody hears of it. `isEvicted`: five minutes later, when the pod is to go and cannot. */
  loseNode(pod: string, { isEvicted = false }: { isEvicted?: boolean } = {}): void {
    const found = this.#pod(pod)
    this.cluster.kubelet.lose(found)
    const { store } = this.cluster
    const now = this.#pod(pod)
    const options = { graceSeconds: undefined, propagation: undefined }
    if (isEvicted) deleteObject(store, this.cluster.resource('pods'), now, options, this.nowMs)
  }

  /** The node is back, and with it all that it has to say. */
  returnNode(pod: string): Promise<void> {
    return this.cluster.kubelet.regain(this.#pod(pod))
  }

  /** Only in the log, and not by any process. */
  appendLog(
    pod: string,
    container: string,
    line: string,
    { atNs, isPartial = false }: { atNs?: bigint; isPartial?: boolean } = {},
  ): void {
    const at = atNs ?? BigInt(Date.now()) * 1_000_000n
    this.container(pod, container).log.append({ atNs: at, stream: 'stdout', bytes: Buffer.from(line), isPartial })
  }

  /** Pods that are said to run, and run nothing. */
  seed(count: number, makePod: (n: number) => Draft = () => ({})): void {
    const { store, kubelet, options } = this.cluster
    for (let n = 0; n < count; n++) {
      const pod = seededPod(options.namespace, n, makePod(n), this.nowMs)
      kubelet.inert.add(pod.metadata.uid)
      store.add('pods', pod)
    }
  }

  /** As they are, past all checks. What controllers make of them is another matter: `pauseController` keeps them away. */
  plant(resource: string, count: number, make: (n: number) => Draft): void {
    const { store, options } = this.cluster
    const kind = this.cluster.resource(resource)
    for (let n = 0; n < count; n++) store.add(resource, plantedObject(kind, options.namespace, n, make(n), this.nowMs))
  }

  #pod(name: string): KubeObject {
    const pod = this.get('pods', name)
    if (!pod) throw new Error(`there is no pod ${name}`)
    return pod
  }

  #worker(pod: string): PodWorker {
    const worker = this.cluster.kubelet.worker(this.#pod(pod).metadata.uid)
    if (!worker) throw new Error(`${pod} runs nothing`)
    return worker
  }

  #changeStatus(pod: string, change: (status: Json) => Json): void {
    this.cluster.store.change('pods', this.#pod(pod), (draft) => {
      draft.status = change(draft.status ?? {})
    })
  }
}
