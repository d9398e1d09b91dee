import { expect, test } from 'vitest'
import { requestIf } from '../../src/db/request.ts'
import { touch } from '../../src/db/touch.ts'
import { type LedgerTest, useLedger } from '../support/ledger.ts'

let given: LedgerTest
useLedger((test) => {
  given = test
})

const touched = async (id: string) => {
  const { ledger, clock } = given
  return (await touch(ledger.db, { fleet: ledger.fleet, id, clock }))?.sandbox
}

test('a touch is written down once a second at most, and moves nothing but the last activity', async () => {
  const { ledger, clock } = given
  const before = await ledger.at('running', { ttl: { idleMs: 60_000, hardMs: 100_000, retentionMs: 100_000 } })
  clock.advance(500)
  expect(await touched(before.id)).toEqual(before)
  clock.advance(10_000)
  const after = await touched(before.id)
  expect(after).toEqual({
    ...before,
    last_active_at: clock.stoppedAt(),
    idle_at: new Date((clock.stoppedAt() as Date).getTime() + 60_000),
  })
})

test('a sandbox that sleeps is not woken by it, one that is gone stays as it was, and another fleet’s is not there', async () => {
  const { ledger, clock } = given
  const asleep = await ledger.at('suspended')
  const gone = await ledger.at('gone')
  clock.advance(10_000)
  expect(await touched(asleep.id)).toMatchObject({ state: 'suspended', last_active_at: clock.stoppedAt() })
  expect(await touched(gone.id)).toEqual(gone)
  expect(await touch(ledger.db, { fleet: 'other', id: asleep.id, clock })).toBeUndefined()
})

test('who is asked to pause because it idled, and was used meanwhile, is not asked', async () => {
  const { ledger, clock } = given
  const idle = await ledger.at('running')
  const asked = (onlyIf: { limit: 'idle' | 'retention'; since: Date }, kind: 'pause' | 'destroy' = 'pause') =>
    requestIf(ledger.db, { fleet: ledger.fleet, sandboxId: idle.id, kind, onlyIf, clock })
  clock.advance(10_000)
  await touched(idle.id)
  expect(await asked({ limit: 'idle', since: idle.last_active_at })).toBeUndefined()
  const { last_active_at: since } = await ledger.sandbox(idle.id)
  const execution = await ledger.execute(idle.id)
  expect(await asked({ limit: 'idle', since: execution.created_at })).toBeUndefined()
  expect(await ledger.operations(idle.id)).toHaveLength(1)
  expect(since).toEqual(execution.created_at)
})

test('who is asked to be destroyed because it slept, and was woken meanwhile, is not asked', async () => {
  const { ledger, clock } = given
  const asleep = await ledger.at('suspended')
  const since = asleep.suspended_at as Date
  const asked = () =>
    requestIf(ledger.db, {
      fleet: ledger.fleet,
      sandboxId: asleep.id,
      kind: 'destroy',
      onlyIf: { limit: 'retention', since },
      clock,
    })
  clock.advance(10_000)
  const { operation } = await ledger.ask(asleep.id, 'resume')
  expect(await asked()).toBeUndefined()
  await ledger.perform(operation.id)
  expect(await asked()).toBeUndefined()
  clock.advance(10_000)
  await ledger.perform((await ledger.ask(asleep.id, 'pause')).operation.id)
  expect(await asked()).toBeUndefined() // it sleeps again, and not since then
  expect((await ledger.sandbox(asleep.id)).state).toBe('suspended')
})

test('since when a sandbox sleeps is kept by the database, also for workers that do not write it', async () => {
  const { ledger, clock } = given
  const asleep = await ledger.at('suspended', { ttl: { retentionMs: 1_000 } })
  expect(asleep.suspended_at).toEqual(asleep.state_changed_at)
  clock.advance(10_000)
  const { operation } = await ledger.ask(asleep.id, 'resume')
  expect((await ledger.sandbox(asleep.id)).suspended_at).toEqual(asleep.suspended_at)
  await ledger.perform(operation.id)
  expect(await ledger.sandbox(asleep.id)).toMatchObject({ suspended_at: null, retention_at: null })
  clock.advance(10_000)
  await ledger.perform((await ledger.ask(asleep.id, 'pause')).operation.id)
  expect((await ledger.sandbox(asleep.id)).suspended_at).toEqual(clock.stoppedAt())
  const checkpoint = await ledger.db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', asleep.id).execute()
  expect(checkpoint.every(({ fleet }) => fleet === ledger.fleet)).toBe(true)
})
