import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listEvents } from '../../src/db/events.ts'
import { startExecution } from '../../src/db/executions.ts'
import { type Attempted, type Settled, type Stale, settle, settleFree } from '../../src/db/settle.ts'
import { KINDS, type Request } from '../../src/sandbox/judge.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { endingOf, type Ledger, ledgerOn, PROVIDER_RESULTS, type ProviderResult } from '../support/ledger.ts'
import { check, PROPERTY_TIMEOUT_MS } from '../support/property.ts'
import { isThorough } from '../support/thorough.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

const requests: Request[] = [
  ...KINDS.filter((kind) => kind !== 'spawn').map((kind) => ({ kind, options: {} })),
  { kind: 'pause', options: { if_busy: 'interrupt' } },
  { kind: 'resume', options: { if_lost: 'respawn' } },
]

/** A sandbox on which an operation is at work: what ran in it, who waits behind that, and what comes of it. */
type Situation = {
  start: 'running' | 'suspended'
  /** Executions that were asked for before: whether each has begun. */
  before: boolean[]
  requests: Request[]
  /** Executions that were asked for meanwhile. */
  meanwhile: number
  result: ProviderResult
  /** Its worker was overtaken. */
  isStale: boolean
}

const situations: fc.Arbitrary<Situation[]> = fc.array(
  fc.record({
    start: fc.constantFrom('running', 'suspended'),
    before: fc.array(fc.boolean(), { maxLength: 2 }),
    requests: fc.array(fc.constantFrom(...requests), { minLength: 1, maxLength: 5 }),
    meanwhile: fc.nat(2),
    result: fc.constantFrom(...PROVIDER_RESULTS),
    isStale: fc.nat(7).map((n) => n === 7),
  }),
  { minLength: 2, maxLength: 6 },
)

/** Undefined when nothing that was asked for needs work. */
async function enter(ledger: Ledger, situation: Situation): Promise<{ id: string; attempted: Attempted } | undefined> {
  const { id, incarnation } = await ledger.at(situation.start)
  for (const begins of situation.before) {
    const execution = await ledger.execute(id)
    if (begins)
      await startExecution(ledger.db, { id: execution.id, incarnation: incarnation ?? 'none', clock: ledger.clock })
  }
  for (const { kind, options } of situation.requests) await ledger.ask(id, kind, { options })
  for (let nth = 0; nth < situation.meanwhile; nth++) await ledger.execute(id)
  const active = await ledger.active(id)
  if (!active) return undefined
  const taken = await ledger.begin(active.id)
  if (situation.isStale) await ledger.begin(active.id)
  return { id, attempted: { attempt: taken.attempt, ending: endingOf(taken, situation.result) } }
}

/** All that is stored of a sandbox, and what its worker was told; ids are new each time, and what counts is which are the same. */
async function outcome({ db }: Ledger, id: string, told: Settled | Stale): Promise<unknown> {
  const of = async (table: 'operations' | 'checkpoints' | 'executions') =>
    db.selectFrom(table).selectAll().where('sandbox_id', '=', id).orderBy('id').execute()
  const sandbox = await db.selectFrom('sandboxes').selectAll().where('id', '=', id).executeTakeFirst()
  const events = (await listEvents(db, id)).map((event) => ({ ...event, id: 0 }))
  const operations = (await of('operations')).map((operation) => ({ ...operation, place: 0 }))
  const all = {
    sandbox,
    operations,
    checkpoints: await of('checkpoints'),
    executions: await of('executions'),
    events,
    told,
  }
  const seen = new Map<string, string>()
  const text = JSON.stringify(all, (key, value) => (key === 'place' || key === 'fleet' ? 0 : value))
  return JSON.parse(
    text.replaceAll(/(op|ckpt|sbx|exe)_[0-9a-f]+/g, (found, what) => {
      seen.set(found, seen.get(found) ?? `${what} ${seen.size}`)
      return seen.get(found) as string
    }),
  )
}

test('what is settled together ends as if each had been settled alone', { timeout: PROPERTY_TIMEOUT_MS }, async () => {
  const property = fc.asyncProperty(situations, async (given) => {
    const clock = stoppedClock('2026-03-01T12:00:00Z')
    const [alone, together] = [0, 1].map(() => ledgerOn(database.db, { fleet: randomUUID(), clock })) as [
      Ledger,
      Ledger,
    ]
    const entered = []
    for (const situation of given) {
      const [one, other] = [await enter(alone, situation), await enter(together, situation)]
      if (one && other) entered.push([one, other] as const)
    }
    clock.advance(1_000)
    const settled = await settleFree(
      database.db,
      entered.map(([, { attempted }]) => attempted),
      clock,
    )
    for (const [one, other] of entered) {
      const told = await settle(database.db, { ...one.attempted, clock })
      const toldTogether = settled.get(other.attempted.attempt.operationId) ?? { settled: false }
      expect(await outcome(together, other.id, toldTogether)).toEqual(await outcome(alone, one.id, told))
    }
    for (const ledger of [alone, together]) await ledger.expectInvariants()
  })
  await check(property, { runs: isThorough ? 300 : 20 })
})
