import type { Cause } from './api-error.ts'
import type { Json, KubeObject } from './objects.ts'
import { custom, type Resource } from './resources.ts'
import { BLUEPRINT_FIELDS, type Blueprint, checkBlueprint, checkTime, known } from './sandboxes.ts'
import { notSupported, objectAt, required } from './validation.ts'

const GROUP = 'extensions.agents.x-k8s.io'
export const CLAIMS = `sandboxclaims.${GROUP}`
export const POOLS = `sandboxwarmpools.${GROUP}`
export const TEMPLATES = `sandboxtemplates.${GROUP}`

type ClaimSpec = {
  warmPoolRef: { name: string }
  lifecycle?: {
    shutdownTime?: string
    ttlSecondsAfterFinished?: number
    shutdownPolicy?: 'Delete' | 'DeleteForeground' | 'Retain'
  }
  additionalPodMetadata?: { labels?: Record<string, string>; annotations?: Record<string, string> }
  env?: { name: string; value: string; containerName?: string }[]
  volumeClaimTemplates?: NonNullable<Blueprint['volumeClaimTemplates']>
}
type PoolSpec = {
  replicas: number
  sandboxTemplateRef: { name: string }
  updateStrategy: { type: 'Recreate' | 'OnReplenish' }
}
type TemplateSpec = Blueprint & { envVarsInjectionPolicy?: string; volumeClaimTemplatesPolicy?: string }

export const claimSpec = (claim: KubeObject) => claim.spec as ClaimSpec
export const poolSpec = (pool: KubeObject) => pool.spec as PoolSpec
export const templateSpec = (template: KubeObject) => template.spec as TemplateSpec

const LABEL = 'agents.x-k8s.io'
export const POOL_LABEL = `${LABEL}/warm-pool-sandbox`
export const TEMPLATE_REF_HASH = `${LABEL}/sandbox-template-ref-hash`
export const TEMPLATE_HASH = `${LABEL}/sandbox-template-hash`
export const TEMPLATE_REF = `${LABEL}/sandbox-template-ref`
export const LAUNCH_TYPE = `${LABEL}/launch-type`
export const CLAIM_UID = `${LABEL}/claim-uid`
/** On a claim, as soon as it has been decided which one it gets. */
export const ASSIGNED = `${LABEL}/sandbox-name`

export function extensionResources(): Resource[] {
  const at = { group: GROUP, versions: ['v1beta1'] }
  return [
    custom({
      ...at,
      plural: 'sandboxclaims',
      kind: 'SandboxClaim',
      rules: {
        prepare: prepareClaim,
        validate: checkClaim,
        fromVersion: only(['warmPoolRef', 'lifecycle', 'additionalPodMetadata', 'env', 'volumeClaimTemplates']),
      },
    }),
    custom({
      ...at,
      plural: 'sandboxwarmpools',
      kind: 'SandboxWarmPool',
      subresources: ['scale'],
      rules: { prepare: preparePool, fromVersion: only(['replicas', 'sandboxTemplateRef', 'updateStrategy']) },
    }),
    custom({
      ...at,
      plural: 'sandboxtemplates',
      kind: 'SandboxTemplate',
      hasStatus: false,
      rules: {
        validate: ({ spec = {} }) => checkBlueprint(spec),
        fromVersion: only([
          ...BLUEPRINT_FIELDS,
          'envVarsInjectionPolicy',
          'volumeClaimTemplatesPolicy',
          'networkPolicy',
        ]),
      },
    }),
  ]
}

const only =
  (fields: string[]) =>
  (object: KubeObject): KubeObject =>
    object.spec ? { ...object, spec: known(object.spec, fields) } : object

function prepareClaim(claim: KubeObject): void {
  const { lifecycle } = claim.spec ?? {}
  if (lifecycle) claim.spec = { ...claim.spec, lifecycle: { shutdownPolicy: 'Retain', ...objectAt(lifecycle) } }
}

function preparePool(pool: KubeObject): void {
  pool.spec = { replicas: 1, updateStrategy: { type: 'OnReplenish' }, ...pool.spec }
}

const POLICIES = ['Delete', 'DeleteForeground', 'Retain']

function checkClaim({ spec = {} }: KubeObject): Cause[] {
  const causes: Cause[] = []
  if (typeof (objectAt(spec.warmPoolRef) as Json).name !== 'string') causes.push(required('spec.warmPoolRef'))
  if (spec.lifecycle === undefined) return causes
  const { shutdownTime, shutdownPolicy } = objectAt(spec.lifecycle)
  if (shutdownTime !== undefined) causes.push(...checkTime('spec.lifecycle.shutdownTime', shutdownTime))
  if (!POLICIES.includes(String(shutdownPolicy)))
    causes.push(notSupported('spec.lifecycle.shutdownPolicy', shutdownPolicy, POLICIES))
  return causes
}
