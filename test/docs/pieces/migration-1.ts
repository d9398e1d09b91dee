// Printed from docs/migration.md.
import { createFleet } from 'sandman'

const fleet = createFleet({ databaseUrl: process.env.DATABASE_URL as string })

/** Yours: what your table knows of a sandbox. */
type Known = { providerId: string; user: string; thread: string | null }

export async function adopt({ providerId, user, thread }: Known): Promise<string | undefined> {
  const { operation, sandbox } = await fleet.adopt({
    backend: 'e2b',
    ref: providerId,
    metadata: { user },
    ...(thread !== null && { agentThreadId: thread }),
    wake: { commands: ['node server.js > server.log 2>&1 &'], previewPort: 3000 },
    ttl: { idle: '30m', retention: '30d' },
    idempotencyKey: `adopt-${providerId}`,
    wait: '2m',
  })
  if (operation.error) console.error(`${providerId}: ${operation.error.errorType}: ${operation.error.message}`)
  return operation.status === 'succeeded' ? sandbox.id : undefined
}
