import { ApiError } from './api-error.ts'
import { ControlLoop } from './control-loop.ts'
import { controllerOf, type KubeObject } from './objects.ts'
import type { Office } from './office.ts'
import { claimDraft, NAME_HASH, ownedBy, POD_NAME, podDraft, propagate } from './sandbox-children.ts'
import { expiredStatus, isMarkedExpired, type Seen, sandboxStatus } from './sandbox-status.ts'
import { isSuspended, SANDBOXES, sandboxSpec } from './sandboxes.ts'
import type { Change } from './store.ts'

const EXPIRY_MS_MAX = 60_000

/** Makes of each sandbox a pod, or none. */
export class SandboxController {
  readonly loop: ControlLoop
  readonly #office: Office
  readonly #staleSuspended: boolean

  /** `staleSuspended`: as v0.5.0 to v0.5.3 did. */
  constructor(office: Office, { staleSuspended }: { staleSuspended: boolean }) {
    this.#office = office
    this.#staleSuspended = staleSuspended
    this.loop = new ControlLoop((namespace, name) => this.#reconcile(namespace, name))
    office.store.onChange((change) => this.#notice(change))
  }

  /** All are looked at once more. */
  lookAgain(): void {
    for (const { metadata } of this.#office.store.list(SANDBOXES)) this.loop.enqueue(metadata.namespace, metadata.name)
  }

  #notice({ resource, object }: Change): void {
    if (resource === SANDBOXES) this.loop.enqueue(object.metadata.namespace, object.metadata.name)
    const owner = controllerOf(object)
    if (owner?.kind === 'Sandbox') this.loop.enqueue(object.metadata.namespace, owner.name)
  }

  async #reconcile(namespace: string, name: string): Promise<{ againAfterMs?: number } | undefined> {
    const { store, nowMs } = this.#office
    const sandbox = store.get(SANDBOXES, namespace, name)
    if (!sandbox || sandbox.metadata.deletionTimestamp !== undefined) return undefined
    const { shutdownTime } = sandboxSpec(sandbox)
    const leftMs = shutdownTime === undefined ? undefined : Date.parse(shutdownTime) - nowMs()
    if (leftMs !== undefined && leftMs <= 0) {
      await this.#expire(sandbox)
      return undefined
    }
    const seen = await this.#children(sandbox)
    await this.#office.writeStatus(SANDBOXES, sandbox, (now) => sandboxStatus(now, seen, nowMs(), this.#staleSuspended))
    if (seen.error !== undefined) throw new Error(seen.error)
    return leftMs === undefined ? undefined : { againAfterMs: Math.min(leftMs, EXPIRY_MS_MAX) }
  }

  /** It is said first, and then done. */
  async #expire(sandbox: KubeObject): Promise<void> {
    const { store, nowMs, reach } = this.#office
    if (!isMarkedExpired(sandbox)) {
      await this.#office.writeStatus(SANDBOXES, sandbox, (now) => ({ ...now.status, ...expiredStatus(now, nowMs()) }))
      return
    }
    const { namespace, name } = sandbox.metadata
    for (const pod of this.#office.controlledBy(sandbox, 'pods')) await this.#deletePod(pod)
    const service = store.get('services', namespace, name)
    if (service) this.#office.delete('services', service)
    if (sandboxSpec(sandbox).shutdownPolicy === 'Delete') {
      await reach('delete sandbox')
      this.#office.delete(SANDBOXES, sandbox)
    } else await this.#office.writeStatus(SANDBOXES, sandbox, (now) => expiredStatus(now, nowMs()))
  }

  async #children(sandbox: KubeObject): Promise<Seen> {
    const seen: Seen = { pod: undefined, hasService: false, error: undefined, podCount: 0 }
    try {
      await this.#keepClaims(sandbox)
      const pods = this.#office.controlledBy(sandbox, 'pods')
      seen.podCount = pods.length
      if (pods.length < 2) seen.pod = await this.#keepPod(sandbox, pods[0])
      seen.hasService = this.#keepService(sandbox)
    } catch (error) {
      if (!(error instanceof ApiError) && !(error instanceof NotOurs)) throw error
      seen.error = error.message
    }
    return seen
  }

  async #keepPod(sandbox: KubeObject, pod: KubeObject | undefined): Promise<KubeObject | undefined> {
    const { namespace, name, uid } = sandbox.metadata
    if (isSuspended(sandbox)) {
      if (!pod) await this.#annotate(sandbox, undefined)
      else if (pod.metadata.deletionTimestamp === undefined) await this.#deletePod(pod)
      return pod && this.#office.store.byUid(pod.metadata.uid)?.object
    }
    if (pod) {
      this.#mark(sandbox, pod)
      await this.#annotate(sandbox, pod.metadata.name)
      return this.#office.store.byUid(pod.metadata.uid)?.object
    }
    const other = this.#office.store.get('pods', namespace, name)
    if (other && controllerOf(other)?.uid !== uid)
      throw new NotOurs(`cannot adopt unowned pod "${name}": missing required pool authorization label`)
    await this.#annotate(sandbox, undefined)
    await this.#office.reach('create pod')
    const made = this.#office.create('pods', sandbox, podDraft(sandbox))
    await this.#annotate(sandbox, name)
    return made
  }

  /** What the template says of labels is made true of a pod that runs. */
  #mark(sandbox: KubeObject, pod: KubeObject): void {
    this.#office.store.change('pods', pod, ({ metadata }) => {
      const { labels = {}, annotations = {} } = metadata
      Object.assign(metadata, propagate(sandbox, { labels, annotations }))
    })
  }

  async #keepClaims(sandbox: KubeObject): Promise<void> {
    const { namespace, name } = sandbox.metadata
    for (const template of sandboxSpec(sandbox).volumeClaimTemplates ?? []) {
      const draft = claimDraft(sandbox, template)
      const claim = this.#office.store.get('persistentvolumeclaims', namespace, draft.metadata?.name ?? '')
      if (claim && controllerOf(claim)?.uid !== sandbox.metadata.uid)
        throw new NotOurs(`PVC "${claim.metadata.name}" is owned by another, not by sandbox "${name}"`)
      if (claim) continue
      await this.#office.reach('create claim')
      this.#office.create('persistentvolumeclaims', sandbox, draft)
    }
  }

  #keepService(sandbox: KubeObject): boolean {
    const { namespace, name } = sandbox.metadata
    const found = this.#office.store.get('services', namespace, name)
    const isWanted = sandboxSpec(sandbox).service === true
    if (isWanted && !found) {
      const { labels = {} } = podDraft(sandbox).metadata ?? {}
      const selector = { [NAME_HASH]: labels[NAME_HASH] }
      const metadata = { name, ownerReferences: [ownedBy(sandbox)] }
      this.#office.create('services', sandbox, { metadata, spec: { clusterIP: 'None', selector } })
    }
    return isWanted || found !== undefined
  }

  async #deletePod(pod: KubeObject): Promise<void> {
    await this.#office.reach('delete pod')
    this.#office.delete('pods', pod)
  }

  async #annotate(sandbox: KubeObject, podName: string | undefined): Promise<void> {
    const { store, reach } = this.#office
    const is = store.byUid(sandbox.metadata.uid)?.object.metadata.annotations?.[POD_NAME]
    if (is === podName) return
    await reach('annotate')
    store.change(SANDBOXES, sandbox, ({ metadata }) => {
      const { [POD_NAME]: _, ...others } = metadata.annotations ?? {}
      metadata.annotations = podName === undefined ? others : { ...others, [POD_NAME]: podName }
    })
  }
}

/** There is something in the way that belongs to somebody else. */
class NotOurs extends Error {}
