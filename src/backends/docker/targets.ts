import { setTimeout as delay } from 'node:timers/promises'
import { BackendError, type Call, type Target } from '../backend.ts'
import { onlyRemains, overtaken } from '../targets.ts'
import { type Container, Moved } from './containers.ts'
import { expired, findInstance, type Instance } from './instance.ts'
import { lookAt, sleepingOf } from './look.ts'
import type { Site } from './site.ts'

/** The container of the incarnation that is meant, as long as it is the one that runs. */
export async function requireRunning(site: Site, instance: Instance, target: Target, call: Call): Promise<Container> {
  const { ref, incarnation } = target
  const sighting = await lookAt(site, instance, call)
  switch (sighting.is) {
    case 'running':
      if (sighting.incarnation === incarnation) return instance.agent as Container
      throw overtaken(
        ref,
        `it runs as ${sighting.incarnation}, and ${incarnation ?? 'one that does not run'} was meant`,
      )
    case 'suspended':
      throw overtaken(ref, 'it sleeps')
    case 'changing':
      throw new Unsettled(ref, sighting.why)
    case 'lost':
      throw onlyRemains(ref, sighting.why)
    case 'absent':
      throw expired(site, ref)
  }
}

/** Fails unless the end is meant for what is there: this incarnation, or one that does not run. */
export async function requireEndable(site: Site, instance: Instance, target: Target, call: Call): Promise<void> {
  const { ref, incarnation } = target
  if (incarnation === null) {
    const seen = await lookAt(site, instance, call)
    if ('incarnation' in seen && seen.incarnation !== undefined) throw overtaken(ref, `it is ${seen.incarnation}`)
  } else if (sleepingOf(instance) || !instance.agent) {
    throw overtaken(ref, `it does not run, and ${incarnation} was meant`)
  } else if (instance.agent.incarnation !== incarnation) {
    throw overtaken(ref, `it is ${instance.agent.incarnation}, and ${incarnation} was meant`)
  }
}

/** It is on its way somewhere, and what is asked for has to wait. */
export class Unsettled extends BackendError {
  constructor(ref: string, why: string) {
    super('sandbox_unreachable', `${ref} is not ready: ${why}`)
  }
}

/** Of several who change it at once, each may get in the way of the others with every step. */
const MOVES_MAX = 20
/** A copy of a small sandbox takes less; a larger one is waited for by whoever asks again. */
const SETTLE_MS_MAX = 10_000
const POLL_MS = 50

/**
 * Does something to a sandbox as it is now. Whenever somebody was faster, it is looked at again: what is to be done may have been
 * done, or may not be meant for what is there any more. While it is on its way somewhere, that is waited for.
 */
export async function changing<T>(
  site: Site,
  ref: string,
  call: Call,
  work: (now: Instance) => Promise<T>,
): Promise<T> {
  const until = Date.now() + SETTLE_MS_MAX
  for (let moves = 0; ; ) {
    try {
      return await work(await findInstance(site, ref, call))
    } catch (error) {
      if (error instanceof Unsettled && Date.now() < until) await delay(POLL_MS, undefined, call)
      else if (!(error instanceof Moved)) throw error
      else if (++moves >= MOVES_MAX)
        throw new BackendError('sandbox_unreachable', `${ref} is changed by others again and again`, { cause: error })
    }
  }
}
