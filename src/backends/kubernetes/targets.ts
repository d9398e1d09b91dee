import { BackendError, type Sighting, type Target } from '../backend.ts'
import { onlyRemains, overtaken } from '../targets.ts'
import { incarnationOf, type Pod } from './pod.ts'
import { stateOf, whyOf } from './pod-state.ts'

/** What is true of a pod, as a sandbox. */
export function sightingOf(pod: Pod): Sighting {
  const state = stateOf(pod)
  const incarnation = incarnationOf(pod)
  switch (state.is) {
    case 'running':
      return { is: 'running', incarnation }
    case 'ended':
    case 'evicted':
      return { is: 'lost', why: state.why }
    default:
      return { is: 'changing', why: state.why, incarnation }
  }
}

/** Fails unless the incarnation that is meant is the one that runs. */
export function requireRunning(pod: Pod, { ref, incarnation }: Target): void {
  const seen = sightingOf(pod)
  const now = incarnationOf(pod)
  if (now !== incarnation) throw overtaken(ref, `it is ${now}, and ${incarnation ?? 'one that does not run'} was meant`)
  if (seen.is === 'running') return
  throw seen.is === 'lost'
    ? onlyRemains(ref, seen.why)
    : new BackendError('sandbox_unreachable', `${ref} is not ready: ${whyOf(seen)}`)
}

/** Fails unless the end is meant for what is there: this incarnation, or one that does not run. */
export function requireEndable(pod: Pod, { ref, incarnation }: Target): void {
  const now = incarnationOf(pod)
  if (incarnation === null) {
    if (sightingOf(pod).is !== 'lost') throw overtaken(ref, `it is ${now}`)
  } else if (incarnation !== now) throw overtaken(ref, `it is ${now}, and ${incarnation} was meant`)
}
