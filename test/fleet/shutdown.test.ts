import { sql } from 'kysely'
import pg from 'pg'
import { afterEach, beforeEach, expect, inject, test } from 'vitest'
import { runningClock } from '../../src/clock.ts'
import { findCanary, sendCanary } from '../../src/db/canaries.ts'
import { Events } from '../../src/events.ts'
import { openStore } from '../../src/queues/bullmq/open-store.ts'
import { Producer } from '../../src/queues/bullmq/producer.ts'
import { canaryQueue } from '../../src/queues/canary.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { SandmanProcess } from '../support/sandman.ts'
import { describeStores, uniqueFleet } from '../support/stores.ts'

/** Postgres notices within a second or so that the client of a waiting statement is gone, and drops it. */
const DEAD_STATEMENT = { timeout: 15_000 }

describeStores('a real worker process', (kind) => {
  let database: TestDatabase
  let producer: Producer
  let env: Record<string, string | undefined>
  let fleet: string

  beforeEach(async () => {
    database = await createDatabase()
    fleet = uniqueFleet()
    const redisUrl = kind === 'redis' ? inject('redisUrl') : undefined
    env = { DATABASE_URL: database.url, REDIS_URL: redisUrl, SANDMAN_FLEET: fleet, LOG_LEVEL: 'debug' }
    producer = new Producer(
      openStore({ redisUrl, databaseUrl: database.url, fleet, role: 'producer', events: new Events() }),
    )
  })

  afterEach(async () => {
    await producer.close()
    await database.drop()
  })

  async function startWorker(extra: Record<string, string> = {}): Promise<SandmanProcess> {
    const worker = new SandmanProcess(['worker'], { env: { ...env, ...extra } })
    await worker.logged('process.started')
    return worker
  }

  /** A canary whose row is locked: the worker that takes it is in the middle of its job until the lock is released. */
  async function sendHeldCanary(): Promise<{ id: string; release(): Promise<void> }> {
    const { id } = await sendCanary(database.db, { fleet, clock: runningClock })
    const session = new pg.Client(database.url)
    await session.connect()
    await session.query('begin')
    await session.query('select from sandman.canaries where id = $1 for update', [id])
    await producer.ring(canaryQueue, { canaryId: id })
    let released: Promise<void> | undefined
    const release = async () => {
      await session.query('rollback')
      await session.end()
    }
    return { id, release: () => (released ??= release()) }
  }

  const answeredBy = async (id: string) => (await findCanary(database.db, id))?.answered_by ?? undefined

  /** The job has reached its statement, and waits for the lock: not before and not after, but in the middle. */
  const isInTheMiddle = async () => {
    const { rows } = await sql<{ waiting: number }>`
      select count(*)::int as waiting from pg_stat_activity
      where datname = current_database() and application_name = 'sandman worker' and wait_event_type = 'Lock'`.execute(
      database.db,
    )
    return rows[0]?.waiting
  }

  test('finishes a job that SIGTERM finds in the middle, and exits with 0', async () => {
    const worker = await startWorker()
    const canary = await sendHeldCanary()
    await expect.poll(isInTheMiddle).toBe(1)
    worker.kill('SIGTERM')
    await worker.logged('process.stopping')
    await canary.release()
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    expect(await answeredBy(canary.id)).toMatch(new RegExp(`-${worker.child.pid}$`))
  })

  test('hands a job that outlasts the grace period to another worker, which finishes it, and exits with 0', async () => {
    const first = await startWorker({ SANDMAN_GRACE: '4s' }) // of which none is for work
    const canary = await sendHeldCanary()
    await expect.poll(isInTheMiddle).toBe(1)
    first.kill('SIGTERM')
    expect(await first.exited).toEqual({ code: 0, signal: null })
    expect(first.lines.map((line) => line.event)).toContain('job.handed_back')
    expect(await answeredBy(canary.id)).toBeUndefined()
    await expect.poll(isInTheMiddle, DEAD_STATEMENT).toBe(0)

    const second = await startWorker()
    await canary.release()
    expect(await second.logged('job.done')).toMatchObject({ canaryId: canary.id, attempt: 1 })
    expect(await answeredBy(canary.id)).toMatch(new RegExp(`-${second.child.pid}$`))
  })

  test('loses a job to another worker when it is killed in the middle', async () => {
    const first = await startWorker()
    const canary = await sendHeldCanary()
    await expect.poll(isInTheMiddle).toBe(1)
    first.kill('SIGKILL')
    await first.exited
    await expect.poll(isInTheMiddle, DEAD_STATEMENT).toBe(0)
    const second = await startWorker()
    await canary.release()
    expect(await second.logged('job.done')).toMatchObject({ canaryId: canary.id })
    expect(second.lines.map((line) => line.event)).toContain('job.stalled')
    expect(await answeredBy(canary.id)).toMatch(new RegExp(`-${second.child.pid}$`))
  })

  // The rest does not depend on how jobs are kept.
  if (kind === 'postgres') return

  test('does not wait for its last look for unheard operations longer than the grace period', async () => {
    const session = new pg.Client(database.url)
    await session.connect()
    await session.query('begin; lock table sandman.sandboxes in access exclusive mode')
    // Without the reaper and the sweeper, which would wait for the same table.
    const worker = await startWorker({ SANDMAN_GRACE: '1s', SANDMAN_QUEUES: 'canary' })
    await expect.poll(isInTheMiddle).toBe(1)
    worker.kill('SIGTERM')
    expect(await worker.exited).toEqual({ code: 0, signal: null })
    // It went although the look had not ended, and not because the statement had timed out.
    expect(worker.lines.map((line) => line.event)).not.toContain('bell.failed')
    await session.end()
  })

  test('exits at once on a second signal', async () => {
    const worker = await startWorker()
    const canary = await sendHeldCanary()
    await expect.poll(isInTheMiddle).toBe(1)
    worker.kill('SIGTERM')
    await worker.logged('process.stopping')
    worker.kill('SIGINT')
    expect(await worker.exited).toEqual({ code: 130, signal: null })
    expect(worker.lines.map((line) => line.event)).not.toContain('process.stopped')
    await canary.release()
  })

  test('puts the ids of a job on every line of it', async () => {
    const worker = await startWorker({ SANDMAN_QUEUES: 'canary' })
    const { id } = await sendCanary(database.db, { fleet, clock: runningClock })
    await producer.ring(canaryQueue, { canaryId: id })
    await worker.logged('job.done')
    const lines = worker.lines.filter((line) => line.event.startsWith('job.'))
    expect(lines.map((line) => line.event)).toEqual(['job.started', 'job.done'])
    for (const line of lines)
      expect(line).toMatchObject({ canaryId: id, queue: 'canary', jobId: expect.any(String), attempt: 1 })
  })
})
