import pg from 'pg'
import { withDeadline } from './deadline.ts'

const CLOSE_MS = 2_000

/**
 * A pool that outlives its connections. One that breaks is replaced, and the statement on it fails; but the error is also
 * raised as an event, on the pool while the connection idles and on the connection itself while somebody holds it, and
 * an event without a listener would end the process.
 */
export function openPool(config: pg.PoolConfig, lost: (error: Error) => void): pg.Pool {
  const pool = new pg.Pool({ keepAlive: true, ...config })
  pool.on('error', lost)
  pool.on('connect', (client) => client.on('error', () => {}))
  return pool
}

/** Waits for statements under way, but not for ever: one may be waiting for a lock that nobody will release. */
export async function closePool(pool: pg.Pool): Promise<void> {
  await withDeadline(CLOSE_MS, 'the last statement', () => pool.end()).catch(() => {})
}
