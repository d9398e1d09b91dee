import { createFleet, type Fleet } from 'sandman'

type Opened = { fleet: Fleet; stopping: AbortSignal }

/** While you develop, Next.js loads files again with every change; what they have opened is kept here, and opened once. */
const kept = globalThis as typeof globalThis & { sandman?: Opened }

/**
 * The fleet of this app; the workers run elsewhere, on the same database. Opened by the first request and not before: `next build`
 * loads every route, where there is no database.
 */
export function openFleet(): Opened {
  kept.sandman ??= open()
  return kept.sandman
}

function open(): Opened {
  const { DATABASE_URL, REDIS_URL } = process.env
  if (!DATABASE_URL) throw new Error('Set DATABASE_URL.')
  const fleet = createFleet({ databaseUrl: DATABASE_URL, ...(REDIS_URL && { redisUrl: REDIS_URL }) })
  const stopping = new AbortController()
  // Next.js closes its server by itself, when the last answer is out: so that this is soon, streams end and nobody waits on.
  process.once('SIGTERM', () => {
    stopping.abort()
    fleet.stopWaiting()
  })
  return { fleet, stopping: stopping.signal }
}
