import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Db } from '../../src/db/pool.ts'
import { claimUnheard } from '../../src/db/ring-due.ts'
import type { Taken } from '../../src/db/take.ts'
import { KINDS, type Kind } from '../../src/sandbox/judge.ts'
import { SETTLED_STATES } from '../../src/sandbox/states.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { endingOf, type Ledger, ledgerOn } from '../support/ledger.ts'
import { isThorough } from '../support/thorough.ts'
import { look, VARYING, withoutIds } from '../support/walk.ts'

/**
 * The schedules of every-schedule.test.ts take one statement after the other. Here two statements run at once: the second
 * begins before the first has committed, waits for its lock, and goes on with a view of the tables from before it waited. It
 * must do exactly what it does when it comes afterwards.
 */
let database: TestDatabase
const clock = stoppedClock('2026-03-01T12:00:00Z')
const fleet = randomUUID()
const on = (db: Db): Ledger => ledgerOn(db, { fleet, clock })

beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

type Step = (ledger: Ledger) => Promise<unknown>

/** Runs the first, and lets the second wait for its lock before the first commits. */
async function atOnce(first: Step, second: Step): Promise<[unknown, unknown]> {
  const transaction = await database.db.startTransaction().execute()
  const before = await first(on(transaction))
  let pid: number | undefined
  const waiting = database.db.connection().execute(async (connection) => {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(connection)
    pid = rows[0]?.pid
    return second(on(connection))
  })
  const isBlocked = async () => {
    const { rows } = await sql`select from pg_stat_get_activity(${pid ?? 0}) where wait_event_type = 'Lock'`.execute(
      database.db,
    )
    return rows.length
  }
  await expect.poll(isBlocked, { interval: 1 }).toBe(1)
  await transaction.commit().execute()
  return [before, await waiting]
}

const oneAfterTheOther = async (first: Step, second: Step): Promise<[unknown, unknown]> => [
  await first(on(database.db)),
  await second(on(database.db)),
]

/**
 * Does it both ways, to two sandboxes of the same kind, and compares everything that was told and stored. What is stored alike has the
 * same future; that of the one where they met is worked through, and what must always be true is looked at on the way.
 */
async function expectSame(
  what: string,
  prepare: () => Promise<{ id: string; first: Step; second: Step }>,
): Promise<void> {
  const [told, stored] = await Promise.all(
    [atOnce, oneAfterTheOther].map(async (run) => {
      const { id, first, second } = await prepare()
      const answers = await run(first, second)
      const left = await look(database.db, id, [what])
      if (run === atOnce) {
        await on(database.db).drain(id)
        await look(database.db, id, [what, 'drained'])
      }
      const all = JSON.stringify({ answers, left: JSON.parse(left) }, (key, value) =>
        VARYING.includes(key) ? undefined : value,
      )
      return JSON.parse(withoutIds(all)) as unknown
    }),
  )
  expect(told, what).toEqual(stored)
}

const ask =
  (id: string, kind: Kind): Step =>
  (ledger) =>
    ledger.ask(id, kind)

test.each(SETTLED_STATES)('two requests at once to a sandbox that is %s are two requests in a row', async (state) => {
  for (const first of KINDS) {
    for (const second of KINDS) {
      // One that changes nothing holds the lock as well: the next one still waits its turn.
      await expectSame(`${state}: ${first}, ${second}`, async () => {
        const { id } = await on(database.db).at(state)
        return { id, first: ask(id, first), second: ask(id, second) }
      })
    }
  }
})

/** A sandbox with an operation of this kind that a worker has taken. */
async function inFlight(kind: Kind): Promise<{ id: string; taken: Taken }> {
  const ledger = on(database.db)
  const { sandbox, operation } =
    kind === 'spawn'
      ? await ledger.spawn()
      : await ledger.ask((await ledger.at(kind === 'resume' ? 'suspended' : 'running')).id, kind)
  return { id: sandbox.id, taken: await ledger.begin(operation.id) }
}

/** All that may be asked meets what works. What fails, or has a line behind it, meets those that differ most in where they lead. */
const FEW: readonly Kind[] = isThorough ? KINDS : ['pause', 'resume', 'kill']
const SETTLING = KINDS.flatMap((kind) =>
  ([undefined, 'kill', 'resume'] as const).flatMap((waiting) =>
    (waiting && !isThorough ? (['works'] as const) : (['works', 'fails'] as const)).map((result) => {
      return { kind, waiting, result, asks: waiting === undefined && result === 'works' ? KINDS : FEW }
    }),
  ),
)

test.each(SETTLING)(
  'a request that arrives while a $kind that $result settles (waiting: $waiting) is one before or after it',
  async ({ kind, waiting, result, asks }) => {
    for (const asked of asks) {
      const prepare = async () => {
        const { id, taken } = await inFlight(kind)
        if (waiting) await on(database.db).ask(id, waiting)
        const settle: Step = (ledger) => ledger.end(taken.attempt, endingOf(taken, result))
        return { id, settle, request: ask(id, asked) }
      }
      await expectSame(`${kind} ${result}, then ${asked}`, async () => {
        const { id, settle, request } = await prepare()
        return { id, first: settle, second: request }
      })
      await expectSame(`${asked}, then ${kind} ${result}`, async () => {
        const { id, settle, request } = await prepare()
        return { id, first: request, second: settle }
      })
    }
  },
)

test.each(KINDS)('of two workers on one %s the later has the fence, whoever waits for whom', async (kind) => {
  const prepare = async () => {
    const { id, taken } = await inFlight(kind)
    const retake: Step = (ledger) => ledger.tryBegin(taken.operation.id)
    const settle: Step = (ledger) => ledger.tryEnd(taken.attempt, endingOf(taken, 'works'))
    return { id, retake, settle }
  }
  await expectSame(`${kind}: taken, taken`, async () => {
    const { id, retake } = await prepare()
    return { id, first: retake, second: retake }
  })
  await expectSame(`${kind}: taken, settled late`, async () => {
    const { id, retake, settle } = await prepare()
    const settleInVain: Step = async (ledger) => {
      expect(await settle(ledger)).toEqual({ settled: false })
    }
    return { id, first: retake, second: settleInVain }
  })
  await expectSame(`${kind}: settled, settled again`, async () => {
    const { id, settle } = await prepare()
    return { id, first: settle, second: settle }
  })
  for (const asked of KINDS) {
    await expectSame(`${kind}: taken, then ${asked}`, async () => {
      const { id, retake } = await prepare()
      return { id, first: retake, second: ask(id, asked) }
    })
    await expectSame(`${kind}: ${asked}, then taken`, async () => {
      const { id, retake } = await prepare()
      return { id, first: ask(id, asked), second: retake }
    })
  }
  await expectSame(`${kind}: settled, taken late`, async () => {
    const { id, retake, settle } = await prepare()
    return { id, first: settle, second: retake }
  })
})

test('a line that grows while its operation settles is seen to the end', async () => {
  const { id, taken } = await inFlight('pause')
  const [, settled] = await atOnce(
    async (ledger) => {
      for (const kind of ['kill', 'resume', 'pause'] as const) await ledger.ask(id, kind)
    },
    (ledger) => ledger.end(taken.attempt, endingOf(taken, 'works')),
  )
  expect(settled).toMatchObject({ sandbox: { state: 'resuming', waiting: 1 }, next: { kind: 'resume' } })
  await on(database.db).drain(id)
  expect(await on(database.db).sandbox(id)).toMatchObject({ state: 'suspended', waiting: 0 })
})

test('an operation whose turn comes between the two looks of whoever takes it is taken', async () => {
  const { id, taken } = await inFlight('pause')
  const { operation } = await on(database.db).ask(id, 'resume')
  let looks = 0
  const afterTheFirstLook = database.db.withPlugin({
    transformQuery: ({ node }) => node,
    async transformResult({ result }) {
      if (++looks === 1) await on(database.db).end(taken.attempt, endingOf(taken, 'works'))
      return result
    },
  })
  expect(await on(afterTheFirstLook).tryBegin(operation.id)).toMatchObject({
    operation: { id: operation.id, attempt: 1 },
  })
  await on(database.db).drain(id)
})

test('a request that waits for one that is taken back is judged as if that had never been', async () => {
  const { id } = await on(database.db).at('running')
  const transaction = await database.db.startTransaction().execute()
  await on(transaction).ask(id, 'kill')
  const waiting = on(database.db).ask(id, 'pause')
  const blocked = () =>
    sql`select from pg_stat_activity where wait_event_type = 'Lock' and datname = current_database()`.execute(
      database.db,
    )
  await expect.poll(async () => (await blocked()).rows.length, { interval: 1 }).toBe(1)
  await transaction.rollback().execute()
  expect(await waiting).toMatchObject({ answer: 'work', sandbox: { state: 'pausing' } })
  await on(database.db).drain(id)
})

test('looking for operations to ring for waits for nobody', async () => {
  const ledger = ledgerOn(database.db, { fleet: randomUUID(), clock: stoppedClock('2026-01-01T00:00:00Z') })
  const busy = await ledger.spawn()
  const idle = await ledger.spawn()
  const transaction = await database.db.startTransaction().execute()
  await ledgerOn(transaction, ledger).ask(busy.sandbox.id, 'kill')
  const claimed = await claimUnheard(database.db, { fleet: ledger.fleet, max: 10, clock })
  expect(claimed).toEqual([{ operationId: idle.operation.id, kind: 'spawn' }])
  await transaction.rollback().execute()
})
