import { ControlLoop } from './control-loop.ts'
import {
  LAUNCH_TYPE,
  POOL_LABEL,
  POOLS,
  poolSpec,
  TEMPLATE_HASH,
  TEMPLATE_REF,
  TEMPLATE_REF_HASH,
  TEMPLATES,
  templateSpec,
} from './extensions.ts'
import { conditionOf, controllerOf, type Draft, type Json, type KubeObject } from './objects.ts'
import type { Office } from './office.ts'
import { ownedBy } from './sandbox-children.ts'
import { BLUEPRINT_FIELDS, known, nameHash, SANDBOXES } from './sandboxes.ts'
import type { Change } from './store.ts'

/** Keeps as many sandboxes ready as each pool is to have. */
export class PoolController {
  readonly loop: ControlLoop
  readonly #office: Office

  constructor(office: Office) {
    this.#office = office
    this.loop = new ControlLoop(async (namespace, name) => {
      await this.#reconcile(namespace, name)
      return undefined
    })
    office.store.onChange((change) => this.#notice(change))
  }

  lookAgain(): void {
    for (const { metadata } of this.#office.store.list(POOLS)) this.loop.enqueue(metadata.namespace, metadata.name)
  }

  #notice({ resource, object, before }: Change): void {
    const { namespace } = object.metadata
    if (resource === POOLS) this.loop.enqueue(namespace, object.metadata.name)
    if (resource === TEMPLATES)
      for (const pool of this.#office.store.list(POOLS, namespace))
        if (poolSpec(pool).sandboxTemplateRef?.name === object.metadata.name)
          this.loop.enqueue(namespace, pool.metadata.name)
    if (resource !== SANDBOXES) return
    // Also the pool that has just lost it to a claim.
    for (const owner of [controllerOf(object), before && controllerOf(before)])
      if (owner?.kind === 'SandboxWarmPool') this.loop.enqueue(namespace, owner.name)
  }

  async #reconcile(namespace: string, name: string): Promise<void> {
    const { store, reach } = this.#office
    const pool = store.get(POOLS, namespace, name)
    if (!pool || pool.metadata.deletionTimestamp !== undefined) return
    const { replicas, sandboxTemplateRef, updateStrategy } = poolSpec(pool)
    const template = store.get(TEMPLATES, namespace, sandboxTemplateRef?.name ?? '')
    const draft = template && poolSandbox(pool, template)
    const all = this.#office.controlledBy(pool, SANDBOXES)
    const alive = all.filter(({ metadata }) => metadata.deletionTimestamp === undefined)
    const isStale = ({ metadata }: KubeObject) =>
      draft !== undefined &&
      updateStrategy.type === 'Recreate' &&
      metadata.labels?.[TEMPLATE_HASH] !== draft.metadata?.labels?.[TEMPLATE_HASH]
    const stale = alive.filter(isStale)
    const fresh = alive.filter((one) => !isStale(one))
    // Those that are not ready go first.
    const excess = fresh
      .toSorted((a, b) => Number(isReady(a)) - Number(isReady(b)))
      .slice(0, Math.max(0, fresh.length - replicas))
    for (const sandbox of [...stale, ...excess]) {
      await reach('delete sandbox')
      this.#office.delete(SANDBOXES, sandbox)
    }
    for (let missing = replicas - fresh.length; missing > 0 && draft; missing--) {
      await reach('create sandbox')
      this.#office.create(SANDBOXES, pool, structuredClone(draft))
    }
    await this.#office.writeStatus(POOLS, pool, () => {
      const members = this.#office.controlledBy(pool, SANDBOXES)
      return {
        replicas: members.length,
        readyReplicas: members.filter(isReady).length,
        selector: `${POOL_LABEL}=${nameHash(name)}`,
        observedGeneration: pool.metadata.generation,
      }
    })
  }
}

export function isReady(sandbox: KubeObject): boolean {
  return conditionOf(sandbox, 'Ready')?.status === 'True'
}

/** What sandboxes are made of that wait in this pool. */
function poolSandbox(pool: KubeObject, template: KubeObject): Draft {
  const blueprint = known(templateSpec(template), BLUEPRINT_FIELDS)
  return {
    metadata: {
      generateName: `${pool.metadata.name}-`,
      labels: {
        [POOL_LABEL]: nameHash(pool.metadata.name),
        [TEMPLATE_REF_HASH]: nameHash(template.metadata.name),
        [TEMPLATE_HASH]: nameHash(JSON.stringify(blueprint)),
        [LAUNCH_TYPE]: 'warm',
        'agents.x-k8s.io/created-by': 'controller',
      },
      annotations: { [TEMPLATE_REF]: template.metadata.name },
      ownerReferences: [ownedBy(pool)],
    },
    spec: structuredClone(blueprint) as Json,
  }
}
