import { BackendError, type Call, type Sighting } from '../backend.ts'
import { findInstance } from './instance.ts'
import { CHANGES_MAX } from './patience.ts'
import { settle } from './settle.ts'
import { sightingOf } from './sighting.ts'
import type { Site } from './site.ts'

/** What is true of it. One that is awake is said to be when that was written down, so that whoever settles it may rely on that. */
export async function look(site: Site, ref: string, call: Call): Promise<Sighting> {
  for (let changes = 0; changes < CHANGES_MAX; changes++) {
    const instance = await findInstance(site, ref, call)
    if (!instance) return { is: 'absent' }
    const seen = sightingOf(instance)
    if (seen.is !== 'running' || (await settle(site, instance, call))) return seen
  }
  throw new BackendError('sandbox_unreachable', `${ref} is changed by others again and again`)
}
