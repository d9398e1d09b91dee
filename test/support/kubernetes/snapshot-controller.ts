import { cp, mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { ControlLoop } from './control-loop.ts'
import type { Kubelet } from './kubelet.ts'
import type { Restore } from './node.ts'
import { type Condition, conditionOf, conditionsOf, type KubeObject, withCondition } from './objects.ts'
import type { Office } from './office.ts'
import type { PodMemory } from './pod-memory.ts'
import {
  groupOf,
  isSelectedBy,
  LATEST,
  ORIGIN_POD,
  POLICIES,
  retentionOf,
  SNAPSHOT_NAME,
  SNAPSHOTS,
  TRIGGERS,
} from './pod-snapshots.ts'
import { NAME_HASH } from './sandbox-children.ts'
import type { Change } from './store.ts'
import type { Volumes } from './volumes.ts'

/** What can go wrong with snapshots. */
type SnapshotFault =
  /** None is taken, and that is said. */
  | 'trigger'
  /** A pod begins afresh, and nothing is said. */
  | 'restore-silently-fresh'
  /** It was taken, but is not ready. */
  | 'lag'

type Given = { office: Office; kubelet: Kubelet; volumes: Volumes; memory: PodMemory; folder: string }

/** Takes snapshots of pods, and lets pods begin from them. */
export class SnapshotController {
  readonly loop: ControlLoop
  readonly memory: PodMemory
  readonly #office: Office
  readonly #kubelet: Kubelet
  readonly #volumes: Volumes
  readonly #folder: string
  readonly #faults = new Set<SnapshotFault>()
  /** In the order in which they were taken; their times are too coarse for that. */
  readonly #taken: string[] = []
  readonly #forgetting: Promise<void>[] = []

  constructor({ office, kubelet, volumes, memory, folder }: Given) {
    this.#office = office
    this.#kubelet = kubelet
    this.#volumes = volumes
    this.#folder = folder
    this.memory = memory
    this.loop = new ControlLoop(async (namespace, name) => {
      await this.#reconcile(namespace, name)
      return undefined
    })
    office.store.onChange((change) => this.#notice(change))
  }

  /** Until it is healed. */
  fail(fault: SnapshotFault): void {
    this.#faults.add(fault)
  }

  /** What was not ready is. */
  heal(): void {
    this.#faults.clear()
    for (const snapshot of this.#office.store.list(SNAPSHOTS)) this.#tellReady(snapshot)
  }

  lookAgain(): void {}

  async stop(): Promise<void> {
    await Promise.all(this.#forgetting)
  }

  #notice({ type, resource, object }: Change): void {
    if (resource === TRIGGERS && type === 'ADDED') this.loop.enqueue(object.metadata.namespace, object.metadata.name)
    if (resource === SNAPSHOTS && type === 'DELETED') this.#forgetting.push(this.#forget(object.metadata.name))
  }

  async #reconcile(namespace: string, name: string): Promise<void> {
    const { store, reach } = this.#office
    const trigger = store.get(TRIGGERS, namespace, name)
    if (!trigger || conditionOf(trigger, 'Triggered')) return
    const targetPod = String(trigger.spec?.targetPod)
    const pod = store.get('pods', namespace, targetPod)
    const refusal = this.#faults.has('trigger')
      ? 'checkpoint failed: rpc error: code = Internal desc = runsc checkpoint failed'
      : pod?.status?.phase === 'Running' && pod.metadata.deletionTimestamp === undefined
        ? undefined
        : `target pod "${targetPod}" ${pod ? 'is not running' : 'not found'}`
    await reach('checkpoint')
    if (!pod || refusal !== undefined) {
      await this.#tell(trigger, { type: 'Triggered', status: 'False', reason: 'Failed', message: refusal ?? '' })
      return
    }
    const snapshot = await this.#take(trigger, pod)
    if (!snapshot) return
    const message = `Snapshot ${snapshot.metadata.name} was created`
    await this.#tell(trigger, { type: 'Triggered', status: 'True', reason: 'Complete', message }, snapshot)
  }

  async #tell(trigger: KubeObject, condition: Condition, snapshot?: KubeObject): Promise<void> {
    await this.#office.writeStatus(TRIGGERS, trigger, (now) => ({
      conditions: withCondition(conditionsOf(now), condition, this.#office.nowMs()),
      ...(snapshot && { snapshotCreated: { name: snapshot.metadata.name } }),
    }))
  }

  async #take(trigger: KubeObject, pod: KubeObject): Promise<KubeObject | undefined> {
    const { uid } = pod.metadata
    const name = crypto.randomUUID()
    this.#taken.push(name)
    const running = this.#kubelet
      .worker(uid)
      ?.slots.flatMap(({ spec, container }) => (container && !container.end ? [[spec.name, container] as const] : []))
    this.memory.hold(name, uid, new Map(running))
    await this.#copy(this.#volumes.folderOfPod(uid), this.#filesOf(name))
    const group = groupOf(pod)
    const made = this.#office.create(SNAPSHOTS, trigger, {
      metadata: {
        name,
        annotations: { [ORIGIN_POD]: pod.metadata.name },
        ...(group !== undefined && { labels: { [NAME_HASH]: group } }),
      },
      spec: { policyName: this.#policyOf(pod)?.metadata.name ?? '' },
    })
    if (made && this.#faults.has('lag')) this.#tellReady(made, 'Uploading')
    else if (made) this.#tellReady(made)
    this.#retire(pod)
    return made
  }

  #tellReady(snapshot: KubeObject, waitsFor?: string): void {
    const condition: Condition =
      waitsFor === undefined
        ? { type: 'Ready', status: 'True', reason: 'AllSnapshotsAvailable', message: 'Snapshot is ready' }
        : { type: 'Ready', status: 'False', reason: waitsFor, message: 'Snapshot is being uploaded' }
    this.#office.store.change(SNAPSHOTS, snapshot, (draft) => {
      draft.status = {
        ...draft.status,
        conditions: withCondition(conditionsOf(draft), condition, this.#office.nowMs()),
      }
    })
  }

  /** The oldest of a group go, when there are more than its policy allows. */
  #retire(pod: KubeObject): void {
    const policy = this.#policyOf(pod)
    const max = policy && retentionOf(policy)
    if (max === undefined) return
    for (const snapshot of this.#ofGroup(pod).slice(max)) this.#office.delete(SNAPSHOTS, snapshot)
  }

  #policyOf(pod: KubeObject): KubeObject | undefined {
    return this.#office.store.list(POLICIES, pod.metadata.namespace).find((policy) => isSelectedBy(policy, pod))
  }

  /** The latest first. */
  #ofGroup(pod: KubeObject): KubeObject[] {
    const turn = ({ metadata }: KubeObject) => this.#taken.indexOf(metadata.name)
    return this.#office.store
      .list(SNAPSHOTS, pod.metadata.namespace)
      .filter((snapshot) => groupOf(snapshot) === groupOf(pod))
      .toSorted((a, b) => turn(b) - turn(a))
  }

  /** What a pod begins from; undefined where it begins afresh. */
  readonly restore: Restore = async (pod, askedOf) => {
    if (this.#faults.has('restore-silently-fresh')) return undefined
    const snapshot = this.#meantBy(pod)
    if (!snapshot) return undefined
    const { name, namespace } = snapshot.metadata
    const origin = this.memory.originOf(name)
    if (origin !== undefined) this.#volumes.inherit(pod.metadata.uid, origin)
    else await this.#copy(this.#filesOf(name), this.#volumes.folderOfPod(pod.metadata.uid))
    const containers = await this.memory.restore(name, await askedOf())
    const message = `Pod was restored from snapshot ${namespace}/${name}`
    return { containers, condition: { type: 'PodRestored', status: 'True', reason: 'Restored', message } }
  }

  #meantBy(pod: KubeObject): KubeObject | undefined {
    const { [SNAPSHOT_NAME]: named, [LATEST]: latest } = pod.metadata.annotations ?? {}
    const ready = this.#ofGroup(pod).filter((snapshot) => conditionOf(snapshot, 'Ready')?.status === 'True')
    if (named !== undefined && named !== '') return ready.find(({ metadata }) => metadata.name === named)
    return latest !== undefined || this.#policyOf(pod) ? ready[0] : undefined
  }

  async #forget(name: string): Promise<void> {
    const origin = await this.memory.forget(name)
    await rm(this.#filesOf(name), { recursive: true, force: true })
    if (origin !== undefined) await this.#volumes.release(origin)
  }

  #filesOf(name: string): string {
    return path.join(this.#folder, name)
  }

  async #copy(from: string, to: string): Promise<void> {
    await mkdir(from, { recursive: true })
    await cp(from, to, { recursive: true, verbatimSymlinks: true })
  }
}
