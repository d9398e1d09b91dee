import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { runningClock } from '../../src/clock.ts'
import { answerCanary, findCanary, sendCanary } from '../../src/db/canaries.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

test('the first answer stands', async () => {
  const { db } = database
  const clock = stoppedClock('2026-01-01T00:00:00Z')
  const { id, answered_by } = await sendCanary(db, { fleet: 'a', clock })
  expect(answered_by).toBeNull()
  clock.advance(1_500)
  expect(await answerCanary(db, { id, fleet: 'a', by: 'first', clock })).toMatchObject({ answered_by: 'first' })
  expect(await answerCanary(db, { id, fleet: 'a', by: 'second', clock })).toBeUndefined()
  expect(await findCanary(db, id)).toMatchObject({
    sent_at: new Date('2026-01-01T00:00:00.000Z'),
    answered_at: new Date('2026-01-01T00:00:01.500Z'),
    answered_by: 'first',
  })
})

test('of many answers at once one stands', async () => {
  const { db } = database
  const { id } = await sendCanary(db, { fleet: 'a', clock: runningClock })
  const answers = await Promise.all(
    Array.from({ length: 8 }, (_, index) =>
      answerCanary(db, { id, fleet: 'a', by: `worker ${index}`, clock: runningClock }),
    ),
  )
  expect(answers.filter((answer) => answer !== undefined)).toHaveLength(1)
})

test('another fleet’s canary is not answered', async () => {
  const { db } = database
  const { id } = await sendCanary(db, { fleet: 'a', clock: runningClock })
  expect(await answerCanary(db, { id, fleet: 'b', by: 'stranger', clock: runningClock })).toBeUndefined()
  expect(await answerCanary(db, { id: randomUUID(), fleet: 'a', by: 'anybody', clock: runningClock })).toBeUndefined()
})

test('a canary is forgotten after a day, and not before', async () => {
  const { db } = database
  const clock = stoppedClock('2026-02-01T00:00:00Z')
  const { id } = await sendCanary(db, { fleet: 'a', clock })
  clock.advance(24 * 3_600_000)
  await sendCanary(db, { fleet: 'a', clock })
  expect(await findCanary(db, id)).toBeDefined()
  clock.advance(1)
  await sendCanary(db, { fleet: 'a', clock })
  expect(await findCanary(db, id)).toBeUndefined()
})

test('while time runs, it is the database that says what time it is', async () => {
  const { db, pool } = database
  const { rows: before } = await pool.query<{ now: Date }>('select clock_timestamp() as now')
  const { sent_at } = await sendCanary(db, { fleet: 'a', clock: runningClock })
  const { rows: after } = await pool.query<{ now: Date }>('select clock_timestamp() as now')
  expect(sent_at.getTime()).toBeGreaterThanOrEqual(before[0]?.now.getTime() as number)
  expect(sent_at.getTime()).toBeLessThanOrEqual(after[0]?.now.getTime() as number)
})
