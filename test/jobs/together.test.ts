import { Kysely, PostgresDialect } from 'kysely'
import { expect, test } from 'vitest'
import { openDb } from '../../src/db/pool.ts'
import { type Database, SCHEMA } from '../../src/db/schema.ts'
import type { Attempted, Settled, Stale } from '../../src/db/settle.ts'
import type { NotTaken, Taken } from '../../src/db/take.ts'
import { Events } from '../../src/events.ts'
import { openSettler, openTaker } from '../../src/jobs/together.ts'
import type { TestDatabase } from '../support/database.ts'
import { endingOf, type Ledger, useLedger } from '../support/ledger.ts'
import { startProxy } from '../support/proxy.ts'

let database: TestDatabase
let ledger: Ledger
useLedger((given) => {
  ;({ database, ledger } = given)
})

/** A taker and a settler, and every statement that they make. */
function setup() {
  const { fleet, clock } = ledger
  const statements: string[] = []
  const db = new Kysely<Database>({
    dialect: new PostgresDialect({ pool: database.pool }),
    log: ({ query }) => {
      statements.push(query.sql)
    },
  }).withSchema(SCHEMA)
  const taker = openTaker(db, { fleet, clock, worker: 'worker', kinds: ['pause'], backends: ['test'] })
  return { taker, settler: openSettler(db, clock), statements }
}

/** Operations of as many sandboxes, each about to be paused. */
async function pauses(count: number): Promise<string[]> {
  const asked = Array.from({ length: count }, async () => {
    const { id } = await ledger.at('running')
    return (await ledger.ask(id, 'pause')).operation.id
  })
  return Promise.all(asked)
}

/** What as many workers would settle with. */
async function paused(count: number): Promise<Attempted[]> {
  const taken = await Promise.all((await pauses(count)).map((id) => ledger.begin(id)))
  return taken.map((each) => ({ attempt: each.attempt, ending: endingOf(each, 'works') }))
}

const stateOf = (told: Settled | Stale) => (told.settled ? told.sandbox.state : 'stale')

const idOf = (taken: Taken | NotTaken) => taken.attempt?.operationId
const because = (taken: Taken | NotTaken) => (taken.attempt ? 'taken' : taken.because)

test('the first is taken at once, and those that come meanwhile together, each with its own sandbox', async () => {
  const { taker, statements } = setup()
  const ids = await pauses(12)
  const taken = await Promise.all(ids.map((id) => taker.ask(id)))
  expect(taken.map(idOf)).toEqual(ids)
  expect(statements).toHaveLength(2)
  for (const { attempt, operation, sandbox } of taken as Taken[]) {
    expect(sandbox.operation_id).toBe(operation.id)
    expect(operation).toMatchObject({ fence: attempt.fence, attempt: 1, taken_by: 'worker' })
    expect(sandbox.fence).toBe(attempt.fence)
  }
  await taker.ask(ids[0] as string) // whoever comes when it is over is the first again
  expect(statements).toHaveLength(3)
})

test('more than one statement may take are taken by the next', async () => {
  const { taker, statements } = setup()
  const ids = await pauses(40)
  expect((await Promise.all(ids.map((id) => taker.ask(id)))).map(idOf)).toEqual(ids)
  expect(statements).toHaveLength(3)
})

test('one that is delivered twice in the same breath is taken twice, and only the second may write', async () => {
  const { taker } = setup()
  const [other, id] = (await pauses(2)) as [string, string]
  const [, first, second] = (await Promise.all([taker.ask(other), taker.ask(id), taker.ask(id)])) as Taken[]
  expect(second?.attempt.fence).toBe((first?.attempt.fence as number) + 1)
})

test('what cannot be taken is told why, and keeps nobody from being taken', async () => {
  const { taker } = setup()
  const [first, ended, last] = (await pauses(3)) as [string, string, string]
  await ledger.perform(ended)
  const waiting = await ledger.ask((await ledger.begin(last)).sandbox.id, 'resume')
  const { operation: other } = await ledger.ask((await ledger.at('suspended')).id, 'resume')
  const asked = [first, ended, 'op_unknown', waiting.operation.id, other.id, last]
  const taken = await Promise.all(asked.map((id) => taker.ask(id)))
  expect(taken.map(because)).toEqual(['taken', 'ended', 'unknown', 'waiting', 'other_kind', 'taken'])
})

test('one whose sandbox somebody else has locked holds up nobody, and is taken when it is free', async () => {
  const { taker } = setup()
  const [locked, ...ids] = (await pauses(4)) as [string, ...string[]]
  const holder = await database.pool.connect()
  try {
    await holder.query('begin')
    await holder.query('select from sandman.sandboxes where operation_id = $1 for update', [locked])
    // First, so that also whoever is taken alone is not waited for.
    const late = taker.ask(locked)
    expect((await Promise.all(ids.map((id) => taker.ask(id)))).map(idOf)).toEqual(ids)
    await holder.query('rollback')
    expect(idOf(await late)).toBe(locked)
  } finally {
    holder.release()
  }
})

test('one that the server refuses to be taken is refused alone', async () => {
  const { taker } = setup()
  const [refused, ...ids] = (await pauses(4)) as [string, ...string[]]
  await database.pool.query(`create function refuse_one() returns trigger language plpgsql as $$
    begin if new.id = '${refused}' and new.attempt > 0 then raise 'not this one'; end if; return new; end $$;
    create trigger refuse_one before update on sandman.operations for each row execute function refuse_one()`)
  try {
    const [first, ...others] = [ids[0] as string, refused, ...ids.slice(1)].map((id) => taker.ask(id))
    const [outcome, ...rest] = await Promise.allSettled(others)
    expect(outcome).toMatchObject({ status: 'rejected', reason: { message: 'not this one' } })
    expect(rest.map(({ status }) => status)).toEqual(['fulfilled', 'fulfilled'])
    expect(idOf(await (first as Promise<Taken>))).toBe(ids[0])
  } finally {
    await database.pool.query('drop function refuse_one cascade')
  }
})

test('when the connection is lost, all are told, and the next ones are taken', async () => {
  const proxy = await startProxy(database.url)
  const { db, close } = openDb({ databaseUrl: proxy.url, applicationName: 'taker', events: new Events() })
  const { fleet, clock } = ledger
  const taker = openTaker(db, { fleet, clock, worker: 'worker' })
  const ids = await pauses(3)
  await proxy.refuse()
  const outcomes = await Promise.allSettled(ids.map((id) => taker.ask(id)))
  expect(outcomes.map(({ status }) => status)).toEqual(['rejected', 'rejected', 'rejected'])
  await proxy.heal()
  expect((await Promise.all(ids.map((id) => taker.ask(id)))).map(idOf)).toEqual(ids)
  await close()
  await proxy.close()
})

test('the first that has ended is settled at once, and those that end meanwhile together, each with its own checkpoint', async () => {
  const { settler, statements } = setup()
  const attempted = await paused(12)
  const told = (await Promise.all(attempted.map((each) => settler.ask(each)))) as Settled[]
  expect(statements).toHaveLength(2)
  expect(told.map(({ operation }) => operation.id)).toEqual(attempted.map(({ attempt }) => attempt.operationId))
  expect(new Set(told.map(({ sandbox }) => sandbox.checkpoint_id)).size).toBe(12)
  for (const { operation, sandbox } of told)
    expect(sandbox).toMatchObject({
      state: 'suspended',
      id: operation.sandbox_id,
      checkpoint_id: operation.checkpoint_id,
    })
})

test('one that was overtaken is told so, and one whose sandbox is locked is waited for, while the others settle', async () => {
  const { settler } = setup()
  const [overtaken, locked, ...others] = (await paused(5)) as [Attempted, Attempted, ...Attempted[]]
  await ledger.begin(overtaken.attempt.operationId)
  const holder = await database.pool.connect()
  try {
    await holder.query('begin')
    await holder.query('select from sandman.sandboxes where operation_id = $1 for update', [locked.attempt.operationId])
    const late = settler.ask(locked)
    const told = await Promise.all([overtaken, ...others].map((each) => settler.ask(each)))
    expect(told.map(stateOf)).toEqual(['stale', 'suspended', 'suspended', 'suspended'])
    await holder.query('rollback')
    expect(stateOf(await late)).toBe('suspended')
  } finally {
    holder.release()
  }
})

test('one whose end the server refuses is refused alone', async () => {
  const { settler } = setup()
  const [refused, ...others] = (await paused(4)) as [Attempted, ...Attempted[]]
  // No sandbox is stored as suspended without a checkpoint.
  refused.ending = { status: 'succeeded', outcome: 'done', rest: { state: 'suspended' } }
  const [first, ...rest] = await Promise.allSettled([...others, refused].map((each) => settler.ask(each)))
  expect(rest.at(-1)).toMatchObject({
    status: 'rejected',
    reason: { constraint: 'sandboxes_suspended_has_checkpoint' },
  })
  expect([first, ...rest.slice(0, -1)].map((each) => each?.status)).toEqual(['fulfilled', 'fulfilled', 'fulfilled'])
  await ledger.begin(refused.attempt.operationId).then((taken) => ledger.end(taken.attempt, endingOf(taken, 'fails')))
})
