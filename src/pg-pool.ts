import pg from 'pg'
import { withDeadline } from './deadline.ts'

const CLOSE_MS = 2_000

/** A connection that idles is probed: a server that vanished without a word would else be noticed after two hours, as Linux has it. */
export const PROBED = { keepAlive: true, keepAliveInitialDelayMillis: 10_000 } as const

const connectionsOf = new WeakMap<pg.Pool, Set<pg.PoolClient>>()

/**
 * A pool that outlives its connections. One that breaks is replaced, and the statement on it fails; but the error is also
 * raised as an event, on the pool while the connection idles and on the connection itself while somebody holds it, and
 * an event without a listener would end the process.
 */
export function openPool(config: pg.PoolConfig, lost: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool({ ...PROBED, ...config })
  pool.on('error', lost)
  const connections = new Set<pg.PoolClient>()
  connectionsOf.set(pool, connections)
  pool.on('connect', (client) => {
    client.on('error', () => {})
    connections.add(client)
  })
  pool.on('remove', (client) => connections.delete(client))
  return pool
}

/**
 * Waits for statements under way, but not for ever: one may be waiting for a lock that nobody will release, or for a server
 * that is not there any more. Such a connection is cut, because it would keep the process alive until it times out.
 */
export async function closePool(pool: pg.Pool, withinMs = CLOSE_MS): Promise<void> {
  await withDeadline(withinMs, 'the last statement', () => pool.end()).catch(() => {
    for (const client of connectionsOf.get(pool) ?? []) (client as pg.Client).end().catch(() => {})
  })
}
