import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { openE2bBackend } from '../src/backends/e2b/backend.ts'
import { openLocalBackend } from '../src/backends/local/backend.ts'
import { createFleet, createWorker, type Fleet } from '../src/index.ts'
import { FLEET, type Site } from './site.ts'

/**
 * A sweeper that is in a hurry: the same code, with other times. As it is, it would wait for ten minutes before it ends what nobody
 * owns, because whoever made it may be about to say so; here nobody is left who could.
 */
const HURRY = { roundMs: 0, looksApartMs: 100, graceMs: 100, lookAgainMs: 100 }
const ROUND_MS = 60_000
const ROUNDS_MAX = 10
const APART_MS = 200

/** Lets it make its rounds until it finds nothing more, and says what it has found. */
export async function sweepUp(site: Site, fleet: Fleet): Promise<string[]> {
  const { databaseUrl, redis, root, provider } = site
  const place = { databaseUrl, fleet: FLEET, ...(redis && { redisUrl: redis.url }) }
  const { url, apiKey } = provider.place
  const backends = [
    openLocalBackend({ folder: path.join(root, 'data', 'sandboxes'), fleet: FLEET }),
    await openE2bBackend({ fleet: FLEET, apiKey, apiUrl: url, sandboxUrl: url }),
  ]
  const acted = new Set<string>()
  const worker = await createWorker({
    ...place,
    backends,
    queues: ['sweeper'],
    housekeeping: HURRY,
    onEvent({ name, fields }) {
      if (name === 'sweep.acted') acted.add(`${fields.kind} ${fields.ref}`)
    },
  })
  try {
    for (let round = 1; round <= ROUNDS_MAX; round++) {
      // What the workers' own sweeper has suspected would be looked at again when its time has come.
      await site.administer('update sandman.findings set look_at = now() where acted_at is null')
      const { findings, unanswered } = await fleet.sweep({ wait: ROUND_MS })
      if (unanswered.length === 0 && findings.every(({ actedAt }) => actedAt !== null) && round > 1) break
      await sleep(APART_MS)
    }
  } finally {
    await worker.stop()
  }
  return [...acted]
}

/** The fleet as an app has it, for what is asked when all is over. */
export function openFleet({ databaseUrl, redis }: Site): Fleet {
  return createFleet({ databaseUrl, fleet: FLEET, ...(redis && { redisUrl: redis.url }) })
}
