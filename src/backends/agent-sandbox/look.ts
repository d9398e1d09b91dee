import type { Call, Sighting } from '../backend.ts'
import { findInstance } from './instance.ts'
import { despiteOthers } from './patience.ts'
import { settle } from './settle.ts'
import { sightingOf } from './sighting.ts'
import type { Site } from './site.ts'

/** What is true of it. One that is awake is said to be when that was written down, so that whoever settles it may rely on that. */
export function look(site: Site, ref: string, call: Call): Promise<Sighting> {
  return despiteOthers(ref, async () => {
    const instance = await findInstance(site, ref, call)
    if (!instance) return { is: 'absent' }
    const seen = sightingOf(instance)
    return (seen.is !== 'running' || (await settle(site, instance, call))) && seen
  })
}
