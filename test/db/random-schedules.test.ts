import { randomUUID } from 'node:crypto'
import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { listEvents } from '../../src/db/events.ts'
import { findViolations } from '../../src/db/invariants.ts'
import type { DbHandle } from '../../src/db/pool.ts'
import { openDb } from '../../src/db/pool.ts'
import { Events } from '../../src/events.ts'
import { KINDS, type Request } from '../../src/sandbox/judge.ts'
import { stoppedClock } from '../support/clock.ts'
import { letLoose, type Plan } from '../support/crowd.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledgerOn, PROVIDER_RESULTS } from '../support/ledger.ts'
import { check, PROPERTY_TIMEOUT_MS } from '../support/property.ts'
import { isThorough } from '../support/thorough.ts'

let database: TestDatabase
let crowd: DbHandle
beforeAll(async () => {
  database = await createDatabase()
  crowd = openDb({ databaseUrl: database.url, applicationName: 'crowd', events: new Events(), connectionsMax: 12 })
})
afterAll(async () => {
  await crowd.close()
  await database.drop()
})

const requests: Request[] = [
  ...KINDS.map((kind) => ({ kind, options: {} })),
  { kind: 'resume', options: { if_lost: 'respawn' } },
  { kind: 'pause', options: { if_unsupported: 'kill' } },
  { kind: 'snapshot', options: { name: 'another' } },
]

const plans: fc.Arbitrary<Plan> = fc.record({
  clients: fc.array(
    fc.array(
      fc.record({
        sandbox: fc.nat(1),
        request: fc.constantFrom(...requests),
        idempotencyKey: fc.option(fc.constantFrom('a', 'b'), { freq: 5, nil: undefined }),
      }),
      { minLength: 1, maxLength: 6 },
    ),
    { minLength: 2, maxLength: 4 },
  ),
  results: fc.array(fc.constantFrom(...PROVIDER_RESULTS), { maxLength: 10 }),
  moves: fc.array(fc.record({ who: fc.nat(50), dies: fc.nat(9).map((n) => n === 9) }), {
    minLength: 20,
    maxLength: 90,
  }),
})

test('whatever a crowd does to two sandboxes at once, the invariants hold and everybody gets one answer', {
  timeout: PROPERTY_TIMEOUT_MS,
}, async () => {
  const property = fc.asyncProperty(plans, async (plan) => {
    const fleet = randomUUID()
    const ledger = ledgerOn(crowd.db, { fleet, clock: stoppedClock('2026-04-01T00:00:00Z') })
    const sandboxes = [await ledger.at('running'), await ledger.at('running', { canPause: false })]
    const ids = sandboxes.map(({ id }) => id)

    const answers = await letLoose(crowd.db, ledger, ids, plan)
    expect(await findViolations(crowd.db, { fleet })).toEqual([])

    for (const id of ids) await ledger.drain(id)
    expect(await findViolations(crowd.db, { fleet })).toEqual([])
    const operations = new Map((await Promise.all(ids.map(ledger.operations))).flat().map((row) => [row.id, row]))
    for (const { operation } of answers) {
      expect(['succeeded', 'failed', 'refused']).toContain(operations.get(operation.id)?.status)
    }
    for (const id of ids) {
      const began = (await listEvents(crowd.db, id)).filter(({ type }) => type.endsWith('_began'))
      const places = began.map(({ operation_id }) => operations.get(operation_id as string)?.place as number)
      expect(places).toEqual(places.toSorted((a, b) => a - b))
    }
  })
  await check(property, { runs: isThorough ? 150 : 60 })
})

test('a crowd really waits for each other’s locks', async () => {
  const fleet = randomUUID()
  const ledger = ledgerOn(crowd.db, { fleet, clock: stoppedClock('2026-04-01T00:00:00Z') })
  const { id } = await ledger.at('running')
  const ask = { sandbox: 0, request: { kind: 'pause', options: {} } as Request }
  const moves = [0, 0, 0, 0].map((who) => ({ who, dies: false }))
  const answers = await letLoose(crowd.db, ledger, [id], { clients: [[ask], [ask], [ask]], results: [], moves })
  expect(answers.map(({ answer }) => answer)).toEqual(['work', 'join', 'join'])
  const { rows } =
    await sql`select from pg_stat_activity where application_name = 'crowd' and state like 'idle in%'`.execute(
      database.db,
    )
  expect(rows).toHaveLength(0)
})
