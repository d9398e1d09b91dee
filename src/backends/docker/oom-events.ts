import type { Call } from '../backend.ts'
import type { Site } from './site.ts'

/** The engine may hear of it a moment later than of the end, and tells moments in whole seconds. */
const BEFORE_SECONDS = 5
const AFTER_SECONDS = 2

/**
 * Whether the engine has heard that something in this container was killed for its memory, at about the time of this end; what
 * that was, it does not know. It hears of ends and of such kills in two ways, and in any order: when the end comes first, it
 * writes down for good that the container was not killed for its memory.
 */
export async function heardOfOom({ engine }: Site, container: string, endedAtSeconds: number, call: Call) {
  const filters = { type: ['container'], container: [container], event: ['oom'] }
  const query = { since: endedAtSeconds - BEFORE_SECONDS, until: endedAtSeconds + AFTER_SECONDS, filters }
  const events = await engine.stream({ method: 'GET', path: '/events', query }, call)
  try {
    for await (const text of events as AsyncIterable<Buffer>) if (text.includes('"oom"')) return true
    return false
  } finally {
    events.destroy()
  }
}
