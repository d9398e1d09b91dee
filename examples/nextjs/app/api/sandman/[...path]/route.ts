import { createFleet } from 'sandman'
import { createApp } from 'sandman/web'

/**
 * Sandman inside of a Next.js app, below /api/sandman: the API, the console, Bull Board. The workers run elsewhere (`sandman worker`),
 * on the same database. Needs the Node.js runtime, and a server that stays: a stream of output lasts as long as its execution.
 */
export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

const { DATABASE_URL, REDIS_URL, SANDMAN_SECRET } = process.env
if (!DATABASE_URL || !SANDMAN_SECRET) throw new Error('Set DATABASE_URL and SANDMAN_SECRET.')

/** While you develop, Next.js loads this file again with every change; what it has opened is opened once. */
const kept = globalThis as typeof globalThis & { fleet?: ReturnType<typeof createFleet> }
kept.fleet ??= createFleet({ databaseUrl: DATABASE_URL, ...(REDIS_URL && { redisUrl: REDIS_URL }) })

const sandman = createApp(kept.fleet, {
  basePath: '/api/sandman',
  tokens: [{ name: 'app', scope: 'operate', secret: SANDMAN_SECRET }],
})

async function handle(request: Request): Promise<Response> {
  return sandman.fetch(request)
}

export { handle as DELETE, handle as GET, handle as HEAD, handle as PATCH, handle as POST, handle as PUT }
