import type { Owner } from '../backend.ts'

/** On every container that Sandman makes. A container has the labels that it was made with, for good. */
export const LABEL = {
  fleet: 'sandman.fleet',
  sandbox: 'sandman.sandbox',
  life: 'sandman.life',
  ref: 'sandman.ref',
  /** Which of a sandbox's containers it is. */
  part: 'sandman.part',
  /** Of an agent's container: whether it was made with an agent, or only to be there. */
  agent: 'sandman.agent',
} as const

/**
 * On every image that Sandman makes. They have names of their own: a container that somebody makes from an image inherits its
 * labels, and does not become Sandman's by that.
 */
export const IMAGE_LABEL = {
  fleet: 'sandman.image.fleet',
  sandbox: 'sandman.image.sandbox',
  life: 'sandman.image.life',
  ref: 'sandman.image.ref',
  kind: 'sandman.image.kind',
  key: 'sandman.image.key',
  /** The name that whoever asked for a snapshot gave it. */
  name: 'sandman.image.name',
  /** What is needed to make the container again, besides what every image knows. */
  recipe: 'sandman.image.recipe',
} as const

export type Labels = Record<string, string>
type Part = 'agent' | 'sidecar'

export function containerLabels(whose: Owner & { fleet: string; ref: string }, part: Part, hasAgent: boolean): Labels {
  return {
    [LABEL.fleet]: whose.fleet,
    [LABEL.sandbox]: whose.sandboxId,
    [LABEL.life]: whose.life,
    [LABEL.ref]: whose.ref,
    [LABEL.part]: part,
    ...(part === 'agent' && { [LABEL.agent]: hasAgent ? 'own' : 'none' }),
  }
}

/** What a container's labels become on an image of it. */
export const WITHOUT_CONTAINER_LABELS: Labels = Object.fromEntries(Object.values(LABEL).map((name) => [name, '']))
