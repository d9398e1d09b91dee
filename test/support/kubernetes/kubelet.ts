import type { Node } from './node.ts'
import type { KubeObject } from './objects.ts'
import { conditionsOf, withCondition } from './objects.ts'
import { PodWorker } from './pod-worker.ts'
import { specOf } from './pods.ts'
import type { Change } from './store.ts'
import { claimsOf } from './volumes.ts'

/** Runs what pods there are. */
export class Kubelet {
  readonly #node: Node
  readonly #workers = new Map<string, PodWorker>()
  readonly #underWay = new Set<Promise<void>>()
  readonly #deadlines = new Map<string, NodeJS.Timeout>()
  readonly #failures: unknown[] = []
  #isStopping = false
  /** Pods that run nothing, and are only said to. */
  readonly inert = new Set<string>()

  constructor(node: Node) {
    this.#node = node
    node.store.onChange((change) => this.#notice(change))
  }

  worker(uid: string): PodWorker | undefined {
    return this.#workers.get(uid)
  }

  get workers(): PodWorker[] {
    return [...this.#workers.values()]
  }

  async stop(): Promise<void> {
    this.#isStopping = true
    for (const timer of this.#deadlines.values()) clearTimeout(timer)
    await Promise.all(this.workers.map((worker) => worker.terminate(0)))
    await Promise.allSettled(this.#underWay)
    if (this.#failures.length > 0) throw new AggregateError(this.#failures, 'the kubelet has failed')
  }

  /** What has run out by the time that it is now. */
  expire(): void {
    for (const worker of this.workers) {
      const { pod, isLost } = worker
      if (!pod) continue
      this.#watchDeadline(pod)
      const { deletionTimestamp } = pod.metadata
      const isDue = deletionTimestamp !== undefined && Date.parse(deletionTimestamp) <= this.#node.nowMs()
      if (isDue && !isLost) this.#track(worker.terminate(0))
    }
  }

  #notice({ type, resource, object }: Change): void {
    if (this.#isStopping) return
    if (['persistentvolumeclaims', 'configmaps', 'secrets'].includes(resource)) this.#node.bell.ring()
    if (resource === 'persistentvolumeclaims') {
      if (type === 'DELETED') this.#track(this.#node.volumes.forgetClaim(object.metadata.uid))
      else this.#releaseClaims(object.metadata.namespace)
    }
    if (resource !== 'pods') return
    const { uid, deletionTimestamp, deletionGracePeriodSeconds = 0 } = object.metadata
    if (type === 'DELETED') {
      this.#track(this.#clear(uid))
      this.#releaseClaims(object.metadata.namespace)
    } else if (this.inert.has(uid)) {
      if (deletionTimestamp !== undefined) this.#track(this.#remove(object))
    } else if (type === 'ADDED') {
      const worker = new PodWorker(this.#node, object)
      this.#workers.set(uid, worker)
      this.#track(worker.done)
      this.#watchDeadline(object)
    } else if (deletionTimestamp !== undefined && deletionGracePeriodSeconds > 0) {
      this.#track(this.#terminate(object, deletionGracePeriodSeconds))
    } else if (object.status?.phase === 'Failed' || object.status?.phase === 'Succeeded') {
      this.#releaseClaims(object.metadata.namespace)
    }
  }

  /** The last it does for a pod is to say that it may go. */
  async #terminate(pod: KubeObject, graceSeconds: number): Promise<void> {
    const worker = this.#workers.get(pod.metadata.uid)
    if (!worker || worker.isLost) return
    await worker.terminate(graceSeconds * this.#node.graceScale)
    if (!worker.isLost) await this.#remove(pod)
  }

  async #remove(pod: KubeObject): Promise<void> {
    await Promise.resolve()
    this.#node.store.change('pods', pod, (draft) => {
      draft.metadata.deletionGracePeriodSeconds = 0
    })
  }

  /** It is gone by force, or has gone. On a node that is lost, what ran runs on. */
  async #clear(uid: string): Promise<void> {
    const worker = this.#workers.get(uid)
    clearTimeout(this.#deadlines.get(uid))
    this.#deadlines.delete(uid)
    this.inert.delete(uid)
    if (!worker || worker.isLost) return
    await worker.terminate(0)
    await worker.done
    this.#workers.delete(uid)
    await this.#node.volumes.forgetPod(uid)
  }

  /** A claim that is to go stays as long as a pod uses it. */
  #releaseClaims(namespace: string | undefined): void {
    const { store } = this.#node
    const going = store
      .list('persistentvolumeclaims', namespace)
      .filter(({ metadata }) => metadata.deletionTimestamp !== undefined)
    if (going.length === 0) return
    const isOver = ({ status }: KubeObject) => status?.phase === 'Failed' || status?.phase === 'Succeeded'
    const used = new Set(
      store
        .list('pods', namespace)
        .filter((pod) => !isOver(pod))
        .flatMap(claimsOf),
    )
    for (const claim of going)
      if (!used.has(claim.metadata.name))
        store.change('persistentvolumeclaims', claim, ({ metadata }) => {
          metadata.finalizers = (metadata.finalizers ?? []).filter((one) => one !== 'kubernetes.io/pvc-protection')
        })
  }

  #watchDeadline(pod: KubeObject): void {
    const { uid, creationTimestamp } = pod.metadata
    const { activeDeadlineSeconds } = specOf(pod)
    clearTimeout(this.#deadlines.get(uid))
    if (activeDeadlineSeconds === undefined) return
    const leftMs = Date.parse(creationTimestamp) + activeDeadlineSeconds * 1000 - this.#node.nowMs()
    const timer = setTimeout(() => this.#track(this.#exceed(uid)), Math.max(0, leftMs))
    this.#deadlines.set(uid, timer.unref())
  }

  async #exceed(uid: string): Promise<void> {
    await this.#workers.get(uid)?.end({
      phase: 'Failed',
      reason: 'DeadlineExceeded',
      message: 'Pod was active on the node longer than the specified deadline',
    })
  }

  /** Nothing more is heard of the pod. */
  lose(pod: KubeObject): void {
    const worker = this.#workers.get(pod.metadata.uid)
    if (worker) worker.isLost = true
    const { store, nowMs } = this.#node
    store.change('pods', pod, (draft) => {
      const gone = {
        type: 'Ready',
        status: 'Unknown',
        reason: 'NodeStatusUnknown',
        message: 'Kubelet stopped posting node status.',
      } as const
      draft.status = { ...draft.status, conditions: withCondition(conditionsOf(draft), gone, nowMs()) }
    })
  }

  /** The node is back. What was to go meanwhile goes now. */
  async regain(pod: KubeObject): Promise<void> {
    const worker = this.#workers.get(pod.metadata.uid)
    if (worker) worker.isLost = false
    const { deletionTimestamp, deletionGracePeriodSeconds = 0 } = pod.metadata
    if (deletionTimestamp !== undefined) await this.#terminate(pod, deletionGracePeriodSeconds)
  }

  /** What goes wrong in here is told when all is over. */
  #track(work: Promise<void>): void {
    const tracked = work
      .catch((error: unknown) => void this.#failures.push(error))
      .finally(() => this.#underWay.delete(tracked))
    this.#underWay.add(tracked)
  }
}
