import type { Owner } from '../backend.ts'
import type { Home } from './names.ts'

/** On everything that Sandman makes or has adopted. */
export const LABEL = {
  fleet: 'sandman.fleet',
  sandbox: 'sandman.sandbox',
  life: 'sandman.life',
  /** Which backend it is of: the pod of an agent-sandbox is not a sandbox of the other one. */
  backend: 'sandman.backend',
} as const

export const ANNOTATION = {
  /** What it is called in Sandman's rows: what is adopted is known by the name that was given for it. */
  ref: 'sandman.ref',
  /** Whether it was made with an agent as its main process, or only to be there. */
  agent: 'sandman.agent',
} as const

export type Labels = Record<string, string>
export type KubernetesBackendName = 'kubernetes-pod' | 'agent-sandbox'

export function labelsOf({ fleet }: Home, { sandboxId, life }: Owner, backend: KubernetesBackendName): Labels {
  return { [LABEL.fleet]: fleet, [LABEL.sandbox]: sandboxId, [LABEL.life]: life, [LABEL.backend]: backend }
}

/** What a list is asked for: all of a fleet, or what one sandbox has. */
export function selectorOf({ fleet }: Pick<Home, 'fleet'>, backend: KubernetesBackendName, sandboxId?: string): string {
  const wanted = { [LABEL.fleet]: fleet, [LABEL.backend]: backend, ...(sandboxId && { [LABEL.sandbox]: sandboxId }) }
  return Object.entries(wanted)
    .map(([name, value]) => `${name}=${value}`)
    .join(',')
}
