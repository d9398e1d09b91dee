import type { Api } from './api.ts'
import { ApiError } from './api-error.ts'
import { ControlLoop } from './control-loop.ts'
import { deleteObject } from './deletion.ts'
import { controllerOf, type Draft, isEqual, type KubeObject } from './objects.ts'
import type { Resource } from './resources.ts'
import { claimDraft, NAME_HASH, ownedBy, POD_NAME, podDraft, propagate } from './sandbox-children.ts'
import { expiredStatus, isMarkedExpired, type Seen, sandboxStatus } from './sandbox-status.ts'
import { isSuspended, SANDBOXES, sandboxSpec } from './sandboxes.ts'
import type { Change, Store } from './store.ts'

/** Where a test can hold a controller up: right before it does this. */
export type ControllerStep =
  | 'create claim'
  | 'create pod'
  | 'delete pod'
  | 'annotate'
  | 'write status'
  | 'create sandbox'
  | 'adopt'
  | 'delete sandbox'

/** What controllers have to work with. */
export type Office = {
  api: Api
  store: Store
  resource: (id: string) => Resource
  nowMs: () => number
  reach: (step: ControllerStep) => Promise<void>
  /** As v0.5.0 to v0.5.3 did. */
  staleSuspended: boolean
}

const EXPIRY_MS_MAX = 60_000

/** Makes of each sandbox a pod, or none. */
export class SandboxController {
  readonly loop: ControlLoop
  readonly #office: Office

  constructor(office: Office) {
    this.#office = office
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
    await this.#writeStatus(sandbox, (now) => sandboxStatus(now, seen, nowMs(), this.#office.staleSuspended))
    if (seen.error !== undefined) throw new Error(seen.error)
    return leftMs === undefined ? undefined : { againAfterMs: Math.min(leftMs, EXPIRY_MS_MAX) }
  }

  /** It is said first, and then done. */
  async #expire(sandbox: KubeObject): Promise<void> {
    const { store, resource, nowMs, reach } = this.#office
    if (!isMarkedExpired(sandbox)) {
      await this.#writeStatus(sandbox, (now) => ({ ...now.status, ...expiredStatus(now, nowMs()) }))
      return
    }
    const { namespace, name } = sandbox.metadata
    for (const pod of this.#podsOf(sandbox)) await this.#deletePod(pod)
    const service = store.get('services', namespace, name)
    if (service) deleteObject(store, resource('services'), service, NO_OPTIONS, nowMs())
    if (sandboxSpec(sandbox).shutdownPolicy === 'Delete') {
      await reach('delete sandbox')
      deleteObject(store, resource(SANDBOXES), sandbox, NO_OPTIONS, nowMs())
    } else await this.#writeStatus(sandbox, (now) => expiredStatus(now, nowMs()))
  }

  async #children(sandbox: KubeObject): Promise<Seen> {
    const seen: Seen = { pod: undefined, hasService: false, error: undefined, podCount: 0 }
    try {
      await this.#keepClaims(sandbox)
      const pods = this.#podsOf(sandbox)
      seen.podCount = pods.length
      if (pods.length < 2) seen.pod = await this.#keepPod(sandbox, pods[0])
      seen.hasService = this.#keepService(sandbox)
    } catch (error) {
      if (!(error instanceof ApiError) && !(error instanceof NotOurs)) throw error
      seen.error = error.message
    }
    return seen
  }

  #podsOf({ metadata: { namespace, uid } }: KubeObject): KubeObject[] {
    return this.#office.store
      .dependentsOf(uid)
      .filter(({ resource, object }) => resource === 'pods' && object.metadata.namespace === namespace)
      .map(({ object }) => object)
      .filter((pod) => controllerOf(pod)?.uid === uid)
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
    const made = this.#create('pods', sandbox, podDraft(sandbox))
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
      this.#create('persistentvolumeclaims', sandbox, draft)
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
      this.#create('services', sandbox, { metadata, spec: { clusterIP: 'None', selector } })
    }
    return isWanted || found !== undefined
  }

  /** Undefined when the sandbox has gone meanwhile. */
  #create(id: string, sandbox: KubeObject, body: Draft): KubeObject | undefined {
    const { store, resource, api } = this.#office
    const { namespace, uid } = sandbox.metadata
    if (!store.byUid(uid)) return undefined
    const target = { resource: resource(id), version: 'v1', namespace, name: '', subresource: '' }
    const query = new URLSearchParams()
    api.create(target, { query, body, contentType: 'application/json', manager: 'sandbox-controller' })
    return store.get(id, namespace, body.metadata?.name ?? '')
  }

  async #deletePod(pod: KubeObject): Promise<void> {
    const { store, resource, nowMs, reach } = this.#office
    await reach('delete pod')
    const now = store.byUid(pod.metadata.uid)?.object
    if (now) deleteObject(store, resource('pods'), now, NO_OPTIONS, nowMs())
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

  /** What was seen is written down of the generation that was looked at, though there may be another one by now. */
  async #writeStatus(seen: KubeObject, make: (sandbox: KubeObject) => KubeObject['status']): Promise<void> {
    const { store, reach } = this.#office
    const next = (now: KubeObject) => make({ ...seen, status: now.status ?? {} })
    const now = store.byUid(seen.metadata.uid)?.object
    if (!now || isEqual(now.status, next(now))) return
    await reach('write status')
    store.change(SANDBOXES, seen, (draft) => {
      draft.status = next(draft) ?? {}
    })
  }
}

const NO_OPTIONS = { graceSeconds: undefined, propagation: undefined }

/** There is something in the way that belongs to somebody else. */
class NotOurs extends Error {}
