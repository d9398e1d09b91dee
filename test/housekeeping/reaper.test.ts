import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { expect, test, vi } from 'vitest'
import type { Backend } from '../../src/backends/backend.ts'
import { requestExecution } from '../../src/db/executions.ts'
import { PATIENCE, type Sandbox } from '../../src/index.ts'
import { work } from '../executions/setup.ts'
import { describeWorld } from '../support/describe-world.ts'
import { housekeeper } from '../support/housekeeper.ts'
import { createWorld, type World } from '../support/world.ts'

const HOUR_MS = 3_600_000
const DAY_MS = 24 * HOUR_MS

async function settled(world: World, { id }: Sandbox): Promise<Sandbox> {
  await expect.poll(async () => (await world.fleet.get(id)).operationId).toBeNull()
  return world.fleet.get(id)
}

const stateOf = async (world: World, sandbox: Sandbox) => (await settled(world, sandbox)).state

async function lastCause(world: World, { id }: Sandbox) {
  return (await world.operations(id)).at(-1)?.cause
}

/** As if nobody had used it for so long. */
async function idleFor(world: World, ms: number, ...sandboxes: Sandbox[]): Promise<void> {
  await sql`update sandman.sandboxes set last_active_at = now() - make_interval(secs => ${ms / 1_000})
    where id = any (${sandboxes.map(({ id }) => id)}::text[])`.execute(world.db)
}

describeWorld(
  'the reaper',
  (world) => {
    test('pauses what has idled for as long as it may, by its own limit or by its fleet’s, and leaves alone what has not', async () => {
      const own = await world().running({ ttl: { idle: '1h' } })
      const byFleet = await world().running()
      const longer = await world().running({ ttl: { idle: '3h' } })
      const { reap, advance, events } = housekeeper(world(), { limits: { idleMs: 2 * HOUR_MS } })
      await reap()
      expect(events.count('reaper.asked')).toBe(0)
      advance(HOUR_MS)
      await reap()
      expect(await stateOf(world(), own)).toBe('suspended')
      const cause = { by: 'reaper', limit: 'idle', of: 'sandbox', limit_ms: HOUR_MS }
      expect(await lastCause(world(), own)).toMatchObject(cause)
      expect(await stateOf(world(), byFleet)).toBe('running')
      advance(HOUR_MS)
      await reap()
      expect(await stateOf(world(), byFleet)).toBe('suspended')
      expect(await lastCause(world(), byFleet)).toMatchObject({ ...cause, of: 'fleet', limit_ms: 2 * HOUR_MS })
      expect(await stateOf(world(), longer)).toBe('running')
    })

    test('takes a touch, and an execution, for activity', async () => {
      const ttl = { idle: '1h' }
      const [touched, worked, idle] = [
        await world().running({ ttl }),
        await world().running({ ttl }),
        await world().running({ ttl }),
      ]
      await idleFor(world(), 2 * HOUR_MS, touched, worked, idle)
      await world().fleet.touch(touched.id)
      world().provider.starts = (agent) => agent.exit()
      await world().fleet.execute(worked.id, { command: ['work'], wait: '30s' })
      await housekeeper(world()).reap()
      expect(await stateOf(world(), idle)).toBe('suspended')
      expect(await stateOf(world(), touched)).toBe('running')
      expect(await stateOf(world(), worked)).toBe('running')
    })

    test('does not pause while something runs, however long ago it was asked for; the hard limit ends it all the same', async () => {
      const { sandbox, agent, execution } = await work(world(), {
        sandbox: await world().running({ ttl: { idle: '1h', hard: '5h' } }),
      })
      const { reap, advance } = housekeeper(world())
      advance(4 * HOUR_MS)
      await reap()
      expect(await stateOf(world(), sandbox)).toBe('running')
      expect(agent.hasEnded).toBe(false)
      await world().fleet.touch(sandbox.id)
      advance(HOUR_MS)
      await reap()
      expect(await settled(world(), sandbox)).toMatchObject({ state: 'gone', goneReason: 'destroyed' })
      expect((await world().fleet.execution(execution.id)).execution).toMatchObject({ status: 'cancelled' })
    })

    test('ends an idle one whose backend cannot pause only if its policy says so', async () => {
      const plain = { backend: 'plain' } as const
      const killed = await world().running({ ...plain, ttl: { idle: '1h', ifUnsupported: 'kill' } })
      const kept = await world().running({ ...plain, ttl: { idle: '1h' } })
      const byFleet = await world().running(plain)
      const ownKill = await world().running({ ...plain, ttl: { ifUnsupported: 'kill' } }) // of the fleet's idle limit
      const patient = housekeeper(world(), { limits: { idleMs: HOUR_MS } })
      patient.advance(2 * HOUR_MS)
      await patient.reap()
      expect(await settled(world(), killed)).toMatchObject({ state: 'gone', goneReason: 'pause_unsupported' })
      expect(await stateOf(world(), byFleet)).toBe('running')
      expect(await stateOf(world(), kept)).toBe('running')
      expect(await world().operations(kept.id)).toHaveLength(1)
      expect(await settled(world(), ownKill)).toMatchObject({ state: 'gone', goneReason: 'pause_unsupported' })
      const strict = housekeeper(world(), { limits: { idleMs: HOUR_MS, ifUnsupported: 'kill' } })
      strict.advance(2 * HOUR_MS)
      await strict.reap()
      for (const each of [byFleet, kept])
        expect(await settled(world(), each)).toMatchObject({ state: 'gone', goneReason: 'pause_unsupported' })
    })

    test('destroys at the hard limit whatever rests, however often it was touched', async () => {
      const running = await world().running({ ttl: { hard: '1h' } })
      const asleep = await world().suspended({ ttl: { hard: '1h' } })
      const byFleet = await world().running({ ttl: { idle: '9h' } })
      const { reap, advance } = housekeeper(world(), { limits: { hardMs: 2 * HOUR_MS } })
      for (const { id } of [running, asleep, byFleet]) await world().fleet.touch(id)
      advance(HOUR_MS)
      await reap()
      for (const each of [running, asleep])
        expect(await settled(world(), each)).toMatchObject({ state: 'gone', goneReason: 'destroyed' })
      expect(await lastCause(world(), asleep)).toMatchObject({ limit: 'hard', of: 'sandbox' })
      advance(HOUR_MS)
      await reap()
      expect(await stateOf(world(), byFleet)).toBe('gone')
    })

    test('destroys what has slept for as long as it may, and a resume that fails does not make it sleep longer', async () => {
      const { fleet, provider, db } = world()
      const asleep = await world().suspended({ ttl: { retention: '1h' } })
      const woken = await world().suspended({ ttl: { retention: '1h' } })
      const { suspended_at: before } = await db
        .selectFrom('sandboxes')
        .selectAll()
        .where('id', '=', asleep.id)
        .executeTakeFirstOrThrow()
      provider.next('resume', { kind: 'status', status: 500 }, { kind: 'status', status: 500 })
      expect((await fleet.resume(asleep.id, { wait: '30s' })).operation.status).toBe('failed')
      const { suspended_at: after } = await db
        .selectFrom('sandboxes')
        .selectAll()
        .where('id', '=', asleep.id)
        .executeTakeFirstOrThrow()
      expect(after).toEqual(before)
      await fleet.resume(woken.id, { wait: '30s' })
      const { reap, advance } = housekeeper(world())
      advance(2 * HOUR_MS)
      await reap()
      expect(await settled(world(), asleep)).toMatchObject({ state: 'gone', goneReason: 'destroyed' })
      expect(await lastCause(world(), asleep)).toMatchObject({ limit: 'retention' })
      expect(await stateOf(world(), woken)).toBe('running')
      expect([...provider.checkpoints.values()].filter(({ sandboxId }) => sandboxId === asleep.id)).toEqual([])
    })

    test('ends no more in one tick than it may, and goes on with the next', async () => {
      const due = [
        await world().suspended({ ttl: { hard: '1h' } }),
        await world().suspended({ ttl: { retention: '1h' } }),
        await world().suspended({ ttl: { retention: '1h' } }),
      ]
      const { reap, advance, events } = housekeeper(world(), { destroyMax: 2 })
      advance(HOUR_MS)
      await reap()
      expect(events.count('reaper.asked')).toBe(2)
      await reap()
      expect(events.count('reaper.asked')).toBe(3)
      for (const each of due) expect(await stateOf(world(), each)).toBe('gone')
    })

    test('counts what cannot be paused among what it ends', async () => {
      const ttl = { idle: '1h', ifUnsupported: 'kill' } as const
      const due = await Promise.all(Array.from({ length: 3 }, () => world().running({ backend: 'plain', ttl })))
      const { reap, advance, deps, events } = housekeeper(world(), { destroyMax: 2 })
      advance(HOUR_MS)
      await reap()
      expect(events.count('reaper.asked')).toBe(2)
      advance(deps.housekeeping.reapAgainMs)
      await reap()
      for (const each of due) expect(await stateOf(world(), each)).toBe('gone')
    })

    test('asks again for what could not be done, but not on every tick', async () => {
      const sandbox = await world().running({ ttl: { idle: '1h' } })
      const { provider } = world()
      provider.always('suspend', { kind: 'error', type: 'quota_exceeded', message: 'no room for checkpoints' })
      const { reap, advance, deps, events } = housekeeper(world())
      advance(HOUR_MS)
      await reap()
      expect(await stateOf(world(), sandbox)).toBe('running')
      await reap()
      expect(events.count('reaper.asked')).toBe(1)
      provider.heal()
      advance(deps.housekeeping.reapAgainMs)
      await reap()
      expect(await stateOf(world(), sandbox)).toBe('suspended')
      expect(events.count('reaper.asked')).toBe(2)
    })

    test('may tick on any number of workers at once: each sandbox is asked for once', async () => {
      const due = await Promise.all(Array.from({ length: 12 }, () => world().running({ ttl: { idle: '1h' } })))
      const reapers = Array.from({ length: 4 }, () => housekeeper(world(), { housekeeping: { reapBatch: 2 } }))
      for (const { advance } of reapers) advance(HOUR_MS)
      await Promise.all(reapers.map(({ reap }) => reap()))
      const asked = reapers.flatMap(({ events }) => events.happened.filter(({ name }) => name === 'reaper.asked'))
      expect(asked.map(({ fields }) => fields.sandboxId).toSorted()).toEqual(due.map(({ id }) => id).toSorted())
      for (const each of due) expect(await stateOf(world(), each)).toBe('suspended')
    })

    test('goes on behind a sandbox that somebody else has hold of', async () => {
      const due: Sandbox[] = []
      for (let i = 0; i < 5; i++) due.push(await world().running({ ttl: { idle: '1h' } }))
      const [held, ...others] = due as [Sandbox, ...Sandbox[]]
      const { reap, advance, events } = housekeeper(world(), { housekeeping: { reapBatch: 2 } })
      advance(HOUR_MS)
      await world()
        .db.transaction()
        .execute(async (elsewhere) => {
          await sql`select from sandman.sandboxes where id = ${held.id} for update`.execute(elsewhere)
          await reap()
        })
      expect(events.count('reaper.asked')).toBe(others.length)
      await reap()
      for (const each of due) expect(await stateOf(world(), each)).toBe('suspended')
    })

    test('leaves what another fleet in the same database has', async () => {
      const theirs = { fleet: `other-${randomUUID().slice(0, 8)}` }
      const id = `sbx_${'0'.repeat(18)}${randomUUID().slice(0, 8)}`
      await sql`insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, created_at,
        last_active_at, idle_ttl_ms, hard_ttl_ms) values (${id}, ${theirs.fleet}, 'test', true, true, 'running', now(), now(), now(), 1000, 1000)`.execute(
        world().db,
      )
      const { reap, advance, events } = housekeeper(world(), { limits: { idleMs: HOUR_MS, hardMs: HOUR_MS } })
      advance(DAY_MS)
      await reap()
      expect(events.happened.filter(({ fields }) => fields.sandboxId === id)).toEqual([])
      const row = await world().db.selectFrom('sandboxes').selectAll().where('id', '=', id).executeTakeFirstOrThrow()
      expect(row).toMatchObject({ state: 'running', reap_after: null })
    })
  },
  { stores: ['redis'] },
)

describeWorld(
  'executions past their deadline that nobody follows',
  (world) => {
    const PAST_MS = 25 * HOUR_MS

    /** One that runs, and whose worker is gone. */
    async function left(isStubborn = false) {
      const worker = await world().startWorker()
      const working = await work(world())
      working.agent.isStubborn = isStubborn
      await expect
        .poll(async () => (await world().fleet.execution(working.execution.id)).execution.status)
        .toBe('running')
      await worker.stop()
      return working
    }

    test('are ended by the reaper, and their agents really stopped', async () => {
      const { agent, execution } = await left()
      const { reap, advance } = housekeeper(world())
      advance(HOUR_MS)
      await reap()
      expect(agent.hasEnded).toBe(false)
      advance(PAST_MS)
      await reap()
      expect(agent.hasEnded).toBe(true)
      expect((await world().fleet.execution(execution.id)).execution).toMatchObject({
        status: 'failed',
        reason: 'deadline_exceeded',
        message: expect.stringContaining('its agent was stopped'),
      })
    })

    test('are ended also when their agents cannot be stopped, and say so', async () => {
      const { execution } = await left(true)
      const brief = { ...housekeeper(world()).deps.patience }
      const patience = { ...brief, callMs: { ...brief.callMs, stop_agent: 300 } } as never
      const { reap, advance, events } = housekeeper(world(), { patience })
      advance(PAST_MS)
      await reap()
      expect(events.count('execution.left_over')).toBe(1)
      expect((await world().fleet.execution(execution.id)).execution).toMatchObject({
        reason: 'deadline_exceeded',
        message: expect.stringContaining('could not be seen to stop'),
      })
    })

    test('are ended side by side: one whose agent cannot be stopped does not keep the others from their turn', async () => {
      const all = [await left(true), await left(true), await left(true)]
      const { patience = PATIENCE } = housekeeper(world()).deps
      const brief = { ...patience, callMs: { ...patience.callMs, stop_agent: 300 } }
      const { reap, advance } = housekeeper(world(), { patience: brief, housekeeping: { tickMs: 200 } })
      advance(PAST_MS)
      await reap()
      for (const { execution } of all)
        expect((await world().fleet.execution(execution.id)).execution.reason).toBe('deadline_exceeded')
    })

    test('are ended also while the provider of others hangs, which is not asked again and again in that tick', async () => {
      const worker = await world().startWorker()
      await Promise.all(Array.from({ length: 40 }, () => world().running({ backend: 'plain' })))
      await worker.stop()
      const { execution } = await left()
      const { patience = PATIENCE } = housekeeper(world()).deps
      const brief = { ...patience, callMs: { ...patience.callMs, look: 300 } }
      const { deps, reap, advance, events } = housekeeper(world(), { patience: brief, housekeeping: { tickMs: 1_000 } })
      const plain = deps.backends.get('plain') as Backend
      const hangs = vi.fn(() => new Promise<never>(() => {}))
      ;(deps.backends as Map<string, Backend>).set('plain', { ...plain, look: hangs })
      advance(PAST_MS)
      await reap()
      expect((await world().fleet.execution(execution.id)).execution.reason).toBe('deadline_exceeded')
      expect(hangs.mock.calls.length).toBeLessThan(16)
      expect(events.count('reaper.not_renewed')).toBe(hangs.mock.calls.length)
    })

    test('are ended when they never began', async () => {
      const worker = await world().startWorker()
      const { id } = await world().running()
      await worker.stop()
      const { execution } = await world().fleet.execute(id, { command: ['work'] })
      const { reap, advance } = housekeeper(world())
      advance(PAST_MS)
      await reap()
      expect((await world().fleet.execution(execution.id)).execution).toMatchObject({
        status: 'failed',
        reason: 'deadline_exceeded',
        startedAt: null,
      })
    })
  },
  { worker: false, stores: ['redis'] },
)

describeWorld(
  'pruning',
  (world) => {
    const old = { clock: { stoppedAt: () => new Date(Date.now() - 100 * DAY_MS) } }

    test('forgets old history, old output and old keys, in pages, and nothing that somebody still needs', async () => {
      const { db, fleet, place } = world()
      const sandbox = await world().running()
      world().provider.starts = (agent) => {
        agent.write('hello\n')
        agent.exit()
      }
      const { execution } = await fleet.execute(sandbox.id, { command: ['work'], wait: '30s', idempotencyKey: 'mine' })
      await requestExecution(db, {
        fleet: place.fleet,
        sandboxId: sandbox.id,
        command: ['x'],
        hardDeadlineMs: 400 * DAY_MS,
        outputBytesMax: 10,
        ...old,
      })
      const young = housekeeper(world(), { housekeeping: { pruneBatch: 2 } })
      await young.reap()
      expect((await fleet.events(sandbox.id)).items).toHaveLength(5)
      const { reap, advance } = housekeeper(world(), { housekeeping: { pruneBatch: 2 } })
      advance(100 * DAY_MS)
      for (let ticks = 0; ticks < 10; ticks++) await reap()
      expect((await fleet.events(sandbox.id)).items.map(({ type }) => type)).toEqual(['spawned'])
      const count = async (table: string) =>
        Number((await sql<{ n: number }>`select count(*) as n from sandman.${sql.raw(table)}`.execute(db)).rows[0]?.n)
      expect(await count('output')).toBe(0)
      expect(await count('idempotency_keys')).toBe(0)
      expect((await fleet.execution(execution.id)).execution).toMatchObject({ status: 'succeeded', outputBytes: 6 })
      const printed: unknown[] = []
      for await (const piece of fleet.output(execution.id)) printed.push(piece)
      expect(printed).toEqual([])
    })

    test('forgets nothing of another fleet in the same database', async () => {
      const theirs = await createWorld('postgres', { databaseUrl: world().home.databaseUrl })
      await theirs.startWorker()
      const { id } = await theirs.running()
      world().provider.starts = (agent) => agent.exit()
      const { reap, advance } = housekeeper(world())
      advance(100 * DAY_MS)
      await reap()
      expect((await theirs.fleet.events(id)).items.map(({ type }) => type)).toEqual(['spawn_began', 'spawned'])
      await theirs.end()
    })

    test('leaves no gap: a state change that was kept goes with the next of its sandbox', async () => {
      const { fleet } = world()
      const sandbox = await world().running()
      const { reap, advance } = housekeeper(world())
      advance(100 * DAY_MS)
      await reap()
      const types = async () => (await fleet.events(sandbox.id)).items.map(({ type }) => type)
      expect(await types()).toEqual(['spawned'])
      await fleet.pause(sandbox.id, { wait: '30s' })
      expect(await types()).toEqual(['spawned', 'pause_began', 'paused'])
      await reap()
      expect(await types()).toEqual(['paused'])
    })
  },
  { stores: ['postgres'] },
)
