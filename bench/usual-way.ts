import { randomUUID } from 'node:crypto'
import type { Redis } from 'ioredis'
import type pg from 'pg'
import type { Backend, Pausing } from '../src/backends/backend.ts'
import type { MeasuredKind } from './subjects/order.ts'

/**
 * Pause and resume as most projects have them: a lock in Redis, a row that is read, a call to the provider, and the row's new status.
 * Written as well as that can be, so that it is seen what the guarantees of `src/` cost beside it. What it does not have:
 *
 * - The job is the only record of the request. A Redis that is flushed, or an enqueue that fails after the caller was answered,
 *   loses it, and the row says for ever what it said before.
 * - The lock ends by time. A worker that was stopped for longer than that writes over what the next one did, and nothing notices.
 * - A crash between the provider's answer and the update leaves a sandbox that sleeps and a row that says it runs. The next attempt
 *   suspends it again, which some providers refuse, and others answer with a second checkpoint that nobody knows.
 * - What the provider says is believed: a row is `suspended` with a checkpoint that nobody has seen.
 * - A resume that arrives during a pause finds the lock taken, and fails or waits for a retry: whoever asked last need not win.
 * - There is no history: how a sandbox got where it is can be read in logs, if they are kept.
 */
export async function performTheUsualWay(
  { redis, pool, pausing }: { redis: Redis; pool: pg.Pool; pausing: Pausing },
  { sandboxId, kind }: UsualJob,
): Promise<void> {
  const token = randomUUID()
  const lock = `lock:sandbox:${sandboxId}`
  if ((await redis.set(lock, token, 'PX', LOCK_MS, 'NX')) !== 'OK') throw new Error(`${sandboxId} is locked`)
  try {
    const { rows } = await pool.query<Row>({ name: 'find', text: FIND, values: [sandboxId] })
    const [sandbox] = rows
    if (!sandbox) throw new Error(`there is no sandbox ${sandboxId}`)
    const call = { signal: AbortSignal.timeout(LOCK_MS) }
    if (kind === 'pause') {
      if (sandbox.status === 'suspended') return
      const target = { ref: sandbox.provider_ref, incarnation: null }
      const { checkpointRef } = await pausing.suspend(target, { key: token }, call)
      await pool.query({ name: 'move', text: MOVE, values: [sandboxId, 'suspended', checkpointRef] })
    } else {
      if (sandbox.status === 'running') return
      const sleeping = { ref: sandbox.provider_ref, checkpointRef: sandbox.checkpoint_ref ?? undefined }
      await pausing.resume(sleeping, { key: token, ttlMs: HOUR_MS }, call)
      await pool.query({ name: 'move', text: MOVE, values: [sandboxId, 'running', null] })
    }
  } finally {
    await redis.eval(UNLOCK, 1, lock, token)
  }
}

export type UsualJob = { sandboxId: string; kind: MeasuredKind }

type Row = { status: 'running' | 'suspended'; provider_ref: string; checkpoint_ref: string | null }

const LOCK_MS = 30_000
const HOUR_MS = 3_600_000
const FIND = 'select status, provider_ref, checkpoint_ref from usual_sandboxes where id = $1'
const MOVE = 'update usual_sandboxes set status = $2, checkpoint_ref = $3, updated_at = now() where id = $1'
/** Only one's own: it may have run out, and be another's by now. */
const UNLOCK = `if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) end return 0`

export async function makeUsualSandboxes(pool: pg.Pool, count: number): Promise<string[]> {
  await pool.query(`create table if not exists usual_sandboxes (id text primary key, status text not null, provider_ref text not null,
    checkpoint_ref text, updated_at timestamptz not null)`)
  const { rows } = await pool.query<{ id: string }>(
    `insert into usual_sandboxes (id, status, provider_ref, updated_at)
     select 'sandbox-' || n, 'running', 'vm-' || n, now() from generate_series(1, $1::int) as n returning id`,
    [count],
  )
  return rows.map(({ id }) => id)
}

export function pausingOf({ pausing }: Backend): Pausing {
  if (pausing === 'none') throw new Error('this backend cannot pause')
  return pausing
}
