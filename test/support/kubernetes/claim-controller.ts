import { ApiError } from './api-error.ts'
import { claimStatus, expiredClaimStatus, isMarkedExpired, Trouble } from './claim-status.ts'
import { coldSandbox, mergedMetadata } from './claimed-sandbox.ts'
import { ControlLoop } from './control-loop.ts'
import {
  ASSIGNED,
  CLAIM_UID,
  CLAIMS,
  claimSpec,
  LAUNCH_TYPE,
  POOL_LABEL,
  POOLS,
  poolSpec,
  TEMPLATE_HASH,
  TEMPLATES,
} from './extensions.ts'
import { conditionOf, controllerOf, type KubeObject } from './objects.ts'
import type { Office } from './office.ts'
import { isReady } from './pool-controller.ts'
import { ownedBy } from './sandbox-children.ts'
import { SANDBOXES, sandboxSpec } from './sandboxes.ts'
import type { Change } from './store.ts'

/** So long a claim waits for one of its pool that has begun to start, before it has one made. */
const WARM_PATIENCE_MS = 2_000
const LOOK_AGAIN_MS = 20
const EXPIRY_MS_MAX = 60_000

/** Gives each claim a sandbox: one that waits in a pool, or else one that is made for it. */
export class ClaimController {
  readonly loop: ControlLoop
  readonly #office: Office

  constructor(office: Office) {
    this.#office = office
    this.loop = new ControlLoop((namespace, name) => this.#reconcile(namespace, name))
    office.store.onChange((change) => this.#notice(change))
  }

  lookAgain(): void {
    for (const { metadata } of this.#office.store.list(CLAIMS)) this.loop.enqueue(metadata.namespace, metadata.name)
  }

  #notice({ resource, object }: Change): void {
    const { namespace, name } = object.metadata
    const owner = controllerOf(object)
    if (resource === CLAIMS) this.loop.enqueue(namespace, name)
    if (resource === SANDBOXES && owner?.kind === 'SandboxClaim') this.loop.enqueue(namespace, owner.name)
    if (resource === POOLS || resource === TEMPLATES) this.lookAgain()
  }

  async #reconcile(namespace: string, name: string): Promise<{ againAfterMs?: number } | undefined> {
    const { store, nowMs } = this.#office
    const claim = store.get(CLAIMS, namespace, name)
    if (!claim || claim.metadata.deletionTimestamp !== undefined) return undefined
    const leftMs = timeLeft(claim, nowMs())
    if (leftMs !== undefined && leftMs <= 0) {
      await this.#expire(claim)
      return undefined
    }
    let sandbox: KubeObject | undefined
    let trouble: Trouble | undefined
    try {
      const found = await this.#bind(claim)
      if (found === 'pending') return { againAfterMs: LOOK_AGAIN_MS }
      sandbox = found
    } catch (error) {
      if (error instanceof ApiError) trouble = new Trouble('ReconcilerError', `Error seen: ${error.message}`)
      else if (error instanceof Trouble) trouble = error
      else throw error
    }
    await this.#office.writeStatus(CLAIMS, claim, (now) => claimStatus(now, sandbox, trouble, nowMs()))
    return leftMs === undefined ? undefined : { againAfterMs: Math.min(leftMs, EXPIRY_MS_MAX) }
  }

  async #expire(claim: KubeObject): Promise<void> {
    const { nowMs, reach } = this.#office
    if (!isMarkedExpired(claim)) {
      await this.#office.writeStatus(CLAIMS, claim, (now) => expiredClaimStatus(now, nowMs()))
      return
    }
    const { shutdownPolicy } = claimSpec(claim).lifecycle ?? {}
    await reach('delete sandbox')
    if (shutdownPolicy === 'Delete') this.#office.delete(CLAIMS, claim)
    else if (shutdownPolicy === 'DeleteForeground') this.#office.delete(CLAIMS, claim, 'Foreground')
    else {
      const [sandbox] = this.#office.controlledBy(claim, SANDBOXES)
      if (sandbox) this.#office.delete(SANDBOXES, sandbox)
      else
        await this.#office.writeStatus(CLAIMS, claim, (now) => ({ ...expiredClaimStatus(now, nowMs()), sandbox: {} }))
    }
  }

  async #bind(claim: KubeObject): Promise<KubeObject | 'pending' | undefined> {
    const { store } = this.#office
    const { namespace, name } = claim.metadata
    const [owned] = this.#office.controlledBy(claim, SANDBOXES)
    if (owned) return this.#label(claim, owned)
    const assigned = claim.metadata.annotations?.[ASSIGNED]
    const chosen = assigned === undefined ? undefined : store.get(SANDBOXES, namespace, assigned)
    if (chosen && controllerOf(chosen)?.kind === 'SandboxWarmPool') return this.#adopt(claim, chosen)
    if (assigned !== undefined) await this.#assign(claim, undefined)
    if (store.get(SANDBOXES, namespace, name))
      throw new Trouble('ReconcilerError', `Error seen: sandbox "${name}" is not controlled by claim "${name}"`)
    const pool = this.#poolOf(claim)
    const { env = [], volumeClaimTemplates = [] } = claimSpec(claim)
    if (env.length === 0 && volumeClaimTemplates.length === 0) {
      const candidate = this.#candidate(claim, pool)
      if (candidate === 'pending') return 'pending'
      if (candidate) {
        await this.#assign(claim, candidate.metadata.name)
        return this.#adopt(claim, candidate)
      }
    }
    await this.#office.reach('create sandbox')
    return this.#office.create(SANDBOXES, claim, coldSandbox(claim, this.#templateOf(pool)))
  }

  /** Ready ones first. One that has no address yet is waited for, though not for long. */
  #candidate(claim: KubeObject, pool: KubeObject): KubeObject | 'pending' | undefined {
    const waiting = this.#office
      .controlledBy(pool, SANDBOXES)
      .filter(({ metadata }) => metadata.deletionTimestamp === undefined && metadata.labels?.[POOL_LABEL] !== undefined)
    const reachable = waiting.filter(({ status }) => status?.podIPs !== undefined)
    const candidate = reachable.find(isReady) ?? reachable[0]
    if (candidate) return candidate
    const ageMs = this.#office.nowMs() - Date.parse(claim.metadata.creationTimestamp)
    return waiting.length > 0 && ageMs < WARM_PATIENCE_MS ? 'pending' : undefined
  }

  async #assign(claim: KubeObject, sandboxName: string | undefined): Promise<void> {
    await this.#office.reach('annotate')
    this.#office.store.change(CLAIMS, claim, ({ metadata }) => {
      const { [ASSIGNED]: _, ...others } = metadata.annotations ?? {}
      metadata.annotations = sandboxName === undefined ? others : { ...others, [ASSIGNED]: sandboxName }
    })
  }

  /** It changes its owner, and nothing else: its name stays, and its pod runs on. */
  async #adopt(claim: KubeObject, sandbox: KubeObject): Promise<KubeObject | undefined> {
    await this.#office.reach('adopt')
    const { store } = this.#office
    const now = store.byUid(sandbox.metadata.uid)?.object
    if (!store.byUid(claim.metadata.uid)) return undefined
    if (!now || controllerOf(now)?.kind !== 'SandboxWarmPool') {
      await this.#assign(claim, undefined)
      const why = `sandbox "${sandbox.metadata.name}" was taken (conflicting concurrent write); the next pass retries from a converged view`
      throw new Trouble('AdoptionConflict', why)
    }
    store.change(SANDBOXES, now, ({ metadata }) => {
      const { [POOL_LABEL]: _, [TEMPLATE_HASH]: __, ...labels } = metadata.labels ?? {}
      metadata.labels = { ...labels, [LAUNCH_TYPE]: 'warm', [CLAIM_UID]: claim.metadata.uid }
      metadata.ownerReferences = [ownedBy(claim)]
    })
    return this.#label(claim, now)
  }

  /** What the claim says of labels is said of the template, from where it comes to the pod. */
  #label(claim: KubeObject, sandbox: KubeObject): KubeObject | undefined {
    const { store } = this.#office
    const pool = store.get(POOLS, claim.metadata.namespace, claimSpec(claim).warmPoolRef.name)
    const template = pool && store.get(TEMPLATES, claim.metadata.namespace, poolSpec(pool).sandboxTemplateRef.name)
    if (!template) return store.byUid(sandbox.metadata.uid)?.object
    const merged = mergedMetadata(claim, template)
    return store.change(SANDBOXES, sandbox, (draft) => {
      const spec = sandboxSpec(draft)
      const before = JSON.stringify(spec.podTemplate.metadata)
      spec.podTemplate = { ...spec.podTemplate, metadata: merged }
      if (JSON.stringify(merged) !== before) draft.metadata.generation = (draft.metadata.generation ?? 1) + 1
    })
  }

  #poolOf(claim: KubeObject): KubeObject {
    const { name } = claimSpec(claim).warmPoolRef
    const pool = this.#office.store.get(POOLS, claim.metadata.namespace, name)
    if (!pool) throw new Trouble('WarmPoolNotFound', `SandboxWarmPool "${name}" not found`)
    return pool
  }

  #templateOf(pool: KubeObject): KubeObject {
    const { name } = poolSpec(pool).sandboxTemplateRef
    const template = this.#office.store.get(TEMPLATES, pool.metadata.namespace, name)
    if (!template) throw new Trouble('TemplateNotFound', `SandboxTemplate "${name}" not found`)
    return template
  }
}

/** Undefined where it lives for ever. */
function timeLeft(claim: KubeObject, nowMs: number): number | undefined {
  const { shutdownTime, ttlSecondsAfterFinished } = claimSpec(claim).lifecycle ?? {}
  const finished = conditionOf(claim, 'Finished')
  const ends = [
    ...(shutdownTime === undefined ? [] : [Date.parse(shutdownTime)]),
    ...(ttlSecondsAfterFinished === undefined || finished?.status !== 'True'
      ? []
      : [Date.parse(finished.lastTransitionTime ?? '') + ttlSecondsAfterFinished * 1000]),
  ]
  return ends.length === 0 ? undefined : Math.min(...ends) - nowMs
}
