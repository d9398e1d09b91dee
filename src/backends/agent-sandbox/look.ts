import type { Call, Sighting } from '../backend.ts'
import { findInstance } from './instance.ts'
import { despiteOthers } from './patience.ts'
import { settle } from './settle.ts'
import { sightingOf } from './sighting.ts'
import type { Site } from './site.ts'

/**
 * What is true of it. One that is awake is only said to be so once that is written down (`settle.ts`), so that the operation
 * which is settled by this may rely on it.
 */
export function look(site: Site, ref: string, call: Call): Promise<Sighting> {
  return despiteOthers(ref, async () => {
    const instance = await findInstance(site, ref, call)
    if (!instance) return { is: 'absent' }
    const seen = sightingOf(instance)
    return (seen.is !== 'running' || (await settle(site, instance, call))) && seen
  })
}
