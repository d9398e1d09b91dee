import { afterEach, beforeEach, expect, test } from 'vitest'
import { type DbHandle, openDb } from '../../src/db/pool.ts'
import { Events } from '../../src/events.ts'
import { ask, askToExecute, askToSpawn } from '../../src/fleet/ask.ts'
import { keepRinging, ringForUnfollowed, ringForUnheard } from '../../src/fleet/bell.ts'
import { Producer } from '../../src/queues/bullmq/producer.ts'
import type { QueueName } from '../../src/queues/names.ts'
import { stoppedClock } from '../support/clock.ts'
import { RecordedEvents } from '../support/events.ts'
import { ledgerOn } from '../support/ledger.ts'
import { type FaultyProxy, startProxy } from '../support/proxy.ts'
import { SandmanProcess } from '../support/sandman.ts'
import { createStoreHome, describeStores, openTestStore, type StoreHome } from '../support/stores.ts'

describeStores('the bell', (kind) => {
  let home: StoreHome
  let proxy: FaultyProxy
  let handle: DbHandle
  let events: RecordedEvents
  let clock: ReturnType<typeof stoppedClock>
  /** Reaches the queue through the proxy, and the database directly. */
  let deps: Parameters<typeof ask>[0]
  /** Sees the queue as it is. */
  let eye: Producer

  beforeEach(async () => {
    home = await createStoreHome(kind)
    const proxied = await startProxy(home.redisUrl ?? home.databaseUrl)
    proxy = proxied
    const behindProxy = { ...home, ...(kind === 'redis' ? { redisUrl: proxied.url } : { databaseUrl: proxied.url }) }
    events = new RecordedEvents()
    clock = stoppedClock('2026-06-01T00:00:00Z')
    handle = openDb({ databaseUrl: home.databaseUrl, applicationName: 'bell', events })
    const producer = new Producer(openTestStore(behindProxy, { role: 'producer', events: new Events() }))
    eye = new Producer(openTestStore(home, { role: 'producer', events: new Events() }))
    deps = { db: handle.db, producer, fleet: home.fleet, clock, events }
  })

  afterEach(async () => {
    await proxy.heal()
    await ledgerOn(handle.db, deps).expectInvariants()
    await Promise.all([deps.producer.close(), eye.close(), handle.close()])
    await proxy.close()
    await home.drop()
  })

  const spawn = () => askToSpawn(deps, { backend: 'test', canPause: true, canSnapshot: true })

  const rungFor = async (name: QueueName): Promise<string[]> => {
    const queue = (await eye.all()).find((open) => open.name === name)?.queue
    const jobs = (await queue?.getJobs(['wait', 'prioritized'])) ?? []
    return jobs.map(({ data }) => data.operationId ?? data.executionId)
  }

  test('is rung for work, in the queue of its kind, and for nothing else', async () => {
    const ledger = ledgerOn(deps.db, deps)
    const spawned = await spawn()
    expect(await rungFor('spawn')).toEqual([spawned.operation.id])
    await ledger.perform(spawned.operation.id)
    const { id } = spawned.sandbox
    const snapshot = await ask(deps, { sandboxId: id, kind: 'snapshot' })
    await ask(deps, { sandboxId: id, kind: 'snapshot' })
    await ask(deps, { sandboxId: id, kind: 'destroy' })
    expect(await rungFor('snapshot')).toEqual([snapshot.operation.id])
    expect(await rungFor('teardown')).toEqual([])
    await ledger.drain(id)
    await ask(deps, { sandboxId: id, kind: 'kill' })
    expect(await rungFor('teardown')).toEqual([])
  })

  test('is rung for an execution, and again when nobody is heard to follow it, also when it could not be at first', async () => {
    const { id: sandboxId } = await ledgerOn(deps.db, deps).at('running')
    const asked = { sandboxId, hardDeadlineMs: 3_600_000, outputBytesMax: 1_000 }
    const heard = await askToExecute(deps, asked)
    expect(await rungFor('streams')).toEqual([heard.execution.id])
    await proxy.refuse()
    const unheard = await askToExecute(deps, asked)
    expect(unheard.execution.status).toBe('queued')
    expect(events.count('execution.unheard')).toBe(1)
    clock.advance(10_000)
    expect(await ringForUnfollowed(deps)).toBe(0)
    await proxy.heal()
    const ringing = keepRinging(deps, { everyMs: 20 })
    // As often as it takes for the queue to be there again.
    await expect
      .poll(
        () => {
          clock.advance(10_000)
          return events.count('execution.rung_again')
        },
        { timeout: 20_000 },
      )
      .toBeGreaterThan(0)
    await ringing.stop()
    // The other one still waits to be taken, so its rings are one.
    expect((await rungFor('streams')).toSorted()).toEqual([heard.execution.id, unheard.execution.id].toSorted())
  })

  test('that cannot be reached does not refuse a request: it is accepted, and rung for later', async () => {
    await spawn()
    await proxy.refuse()
    const accepted = await spawn()
    expect(accepted).toMatchObject({ answer: 'work', operation: { status: 'active' } })
    expect((await events.until('operation.unheard')).fields).toMatchObject({ operationId: accepted.operation.id })
    expect(await rungFor('spawn')).not.toContain(accepted.operation.id)

    clock.advance(10_000)
    expect(await ringForUnheard(deps)).toBe(0)
    await proxy.heal()
    clock.advance(10_000)
    await expect.poll(() => ringForUnheard(deps).finally(() => clock.advance(10_000)), { timeout: 20_000 }).toBe(2)
    expect(await rungFor('spawn')).toContain(accepted.operation.id)
  })

  test('that has forgotten everything is rung again for everything', async () => {
    const spawned = await Promise.all(Array.from({ length: 5 }, spawn))
    for (const { queue } of await eye.all()) await queue.obliterate({ force: true })
    expect(await rungFor('spawn')).toEqual([])
    clock.advance(10_000)
    expect(await ringForUnheard(deps)).toBe(5)
    const expected = spawned.map(({ operation }) => operation.id)
    expect((await rungFor('spawn')).toSorted()).toEqual(expected.toSorted())
  })

  test('is rung again and again until somebody comes, by however many look', async () => {
    const { operation } = await spawn()
    const ringers = [keepRinging(deps, { everyMs: 1 }), keepRinging(deps, { everyMs: 1 })]
    for (const times of [1, 2, 3]) {
      clock.advance(10_000)
      await events.until('operation.rung_again', times)
    }
    await Promise.all(ringers.map((ringer) => ringer.stop()))
    expect(events.count('operation.rung_again')).toBe(3)
    expect(await rungFor('spawn')).toEqual([operation.id])
  })

  test('is rung by every worker for what was left behind', async () => {
    const { operation } = await spawn()
    for (const { queue } of await eye.all()) await queue.obliterate({ force: true })
    const env = { DATABASE_URL: home.databaseUrl, REDIS_URL: home.redisUrl, SANDMAN_FLEET: home.fleet }
    // The row is from the past, and the worker's clock is the database's.
    const worker = new SandmanProcess(['worker', '--queues', 'canary'], { env })
    expect(await worker.logged('operation.rung_again')).toMatchObject({ operationId: operation.id, kind: 'spawn' })
    expect(await rungFor('spawn')).toEqual([operation.id])
    worker.kill('SIGTERM')
    expect(await worker.exited).toMatchObject({ code: 0 })
  })
})

test('a ringer that cannot reach the database says so, goes on, and stops when it is told', async () => {
  const events = new RecordedEvents()
  const handle = openDb({ databaseUrl: 'postgres://nobody@127.0.0.1:1/nothing', applicationName: 'bell', events })
  const deps = {
    db: handle.db,
    producer: {} as Producer,
    fleet: 'f',
    clock: stoppedClock('2026-06-01T00:00:00Z'),
    events,
  }
  const ringer = keepRinging(deps, { everyMs: 1 })
  await events.until('bell.failed', 3)
  await ringer.stop()
  await handle.close()
})
