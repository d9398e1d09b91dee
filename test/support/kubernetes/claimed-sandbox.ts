import { Trouble } from './claim-status.ts'
import { CLAIM_UID, claimSpec, LAUNCH_TYPE, TEMPLATE_REF, TEMPLATE_REF_HASH, templateSpec } from './extensions.ts'
import type { Draft, KubeObject } from './objects.ts'
import type { ContainerSpec } from './pods.ts'
import { ownedBy } from './sandbox-children.ts'
import { BLUEPRINT_FIELDS, type Blueprint, known, nameHash } from './sandboxes.ts'

type PodMetadata = { labels: Record<string, string>; annotations?: Record<string, string> }

/** What a claim adds to what its template says of pods. */
export function mergedMetadata(claim: KubeObject, template: KubeObject): PodMetadata {
  const { metadata = {} } = templateSpec(template).podTemplate
  const { labels = {}, annotations = {} } = claimSpec(claim).additionalPodMetadata ?? {}
  const all = { ...metadata.annotations, ...annotations }
  return {
    labels: {
      ...metadata.labels,
      [CLAIM_UID]: claim.metadata.uid,
      [TEMPLATE_REF_HASH]: nameHash(template.metadata.name),
      ...labels,
    },
    ...(Object.keys(all).length > 0 && { annotations: all }),
  }
}

/** One that is made for this claim alone, and has its name. */
export function coldSandbox(claim: KubeObject, template: KubeObject): Draft {
  const { env = [], volumeClaimTemplates = [] } = claimSpec(claim)
  const { envVarsInjectionPolicy = 'Disallowed', volumeClaimTemplatesPolicy = 'Disallowed' } = templateSpec(template)
  if (env.length > 0 && envVarsInjectionPolicy === 'Disallowed')
    throw new Trouble(
      'EnvVarsInjectionRejected',
      'environment variable injection rejected: environment variable injection is not allowed by the template policy',
    )
  if (volumeClaimTemplates.length > 0 && volumeClaimTemplatesPolicy === 'Disallowed')
    throw new Trouble('VolumeClaimTemplatesError', 'volumeClaimTemplates are not allowed by the template policy')
  const blueprint = structuredClone(known(templateSpec(template), BLUEPRINT_FIELDS)) as Blueprint
  const added = new Set(volumeClaimTemplates.map(({ metadata }) => metadata.name))
  const kept = (blueprint.volumeClaimTemplates ?? []).filter(({ metadata }) => !added.has(metadata.name))
  const containers = blueprint.podTemplate.spec.containers as ContainerSpec[]
  for (const { name, value, containerName } of env) {
    const container = containers.find((one, n) => (containerName === undefined ? n === 0 : one.name === containerName))
    if (!container)
      throw new Trouble('ReconcilerError', `Error seen: target container "${containerName}" not found in template`)
    container.env = [...(container.env ?? []).filter((one) => one.name !== name), { name, value }]
  }
  return {
    metadata: {
      name: claim.metadata.name,
      labels: {
        [CLAIM_UID]: claim.metadata.uid,
        [LAUNCH_TYPE]: 'cold',
        [TEMPLATE_REF_HASH]: nameHash(template.metadata.name),
      },
      annotations: { [TEMPLATE_REF]: template.metadata.name },
      ownerReferences: [ownedBy(claim)],
    },
    spec: {
      ...blueprint,
      podTemplate: { ...blueprint.podTemplate, metadata: mergedMetadata(claim, template) },
      ...(added.size + kept.length > 0 && {
        volumeClaimTemplates: [...kept, ...structuredClone(volumeClaimTemplates)],
      }),
    },
  }
}
