import { createApp } from 'sandman/web'
import { openFleet } from '../../../../lib/fleet.ts'

/**
 * Sandman inside of a Next.js app, below /api/sandman: the API, the console, Bull Board. Needs the Node.js runtime, and a server that
 * stays: a stream of output lasts as long as its execution.
 */
export const runtime = 'nodejs'
export const dynamic = 'force-dynamic'

let sandman: ReturnType<typeof createApp> | undefined

async function handle(request: Request): Promise<Response> {
  sandman ??= mount()
  return sandman.fetch(request)
}

function mount(): ReturnType<typeof createApp> {
  const { SANDMAN_SECRET } = process.env
  if (!SANDMAN_SECRET) throw new Error('Set SANDMAN_SECRET.')
  const { fleet, stopping } = openFleet()
  const tokens = [{ name: 'app', scope: 'operate' as const, secret: SANDMAN_SECRET }]
  return createApp(fleet, { basePath: '/api/sandman', tokens, stopping })
}

export { handle as DELETE, handle as GET, handle as HEAD, handle as PATCH, handle as POST, handle as PUT }
