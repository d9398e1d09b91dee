import { BackendError, type Target } from '../backend.ts'
import { onlyRemains, overtaken } from '../targets.ts'
import { type Instance, readLife } from './instance.ts'
import { lookAt } from './look.ts'

/** The incarnation that is meant, as long as it is the one that runs. */
export async function requireRunning(instance: Instance, { ref, incarnation }: Target): Promise<string> {
  const sighting = await lookAt(instance)
  switch (sighting.is) {
    case 'running':
      if (sighting.incarnation === incarnation) return incarnation
      throw overtaken(
        ref,
        `it runs as ${sighting.incarnation}, and ${incarnation ?? 'one that does not run'} was meant`,
      )
    case 'suspended':
      throw overtaken(ref, 'it sleeps')
    case 'changing':
      throw new BackendError('sandbox_unreachable', `${ref} is not ready: ${sighting.why}`)
    case 'lost':
      throw onlyRemains(ref, sighting.why)
  }
}

/** Fails unless the end is meant for what is there: this incarnation, or one that does not run. */
export async function requireEndable(instance: Instance, { ref, incarnation }: Target): Promise<void> {
  const life = await readLife(instance)
  if (incarnation === null) {
    if ((await lookAt(instance)).is === 'running') throw overtaken(ref, 'it runs')
  } else if (life.is === 'asleep') {
    throw overtaken(ref, `it sleeps, and ${incarnation} was meant`)
  } else if (life.incarnation !== incarnation) {
    throw overtaken(ref, `it is ${life.incarnation}, and ${incarnation} was meant`)
  }
}
