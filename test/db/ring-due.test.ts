import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { claimUnheard } from '../../src/db/ring-due.ts'
import { type LedgerTest, useLedger } from '../support/ledger.ts'

let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
let clock: LedgerTest['clock']
useLedger((given) => {
  ;({ database, ledger, clock } = given)
})

describe('an operation that nobody has heard of', () => {
  const claim = (max = 10) => claimUnheard(database.db, { fleet: ledger.fleet, max, clock })

  test('comes up to be rung for again, once for each wait, until it has settled', async () => {
    const { sandbox, operation } = await ledger.spawn()
    clock.advance(9_999)
    expect(await claim()).toEqual([])
    clock.advance(1)
    expect(await claim()).toEqual([{ operationId: operation.id, kind: 'spawn' }])
    expect(await claim()).toEqual([])
    clock.advance(10_000)
    expect(await claim()).toEqual([{ operationId: operation.id, kind: 'spawn' }])
    await ledger.drain(sandbox.id)
    clock.advance(3_600_000)
    expect(await claim()).toEqual([])
  })

  test('is rung for when it is due, however many requests join its line meanwhile; the oldest first', async () => {
    const young = await ledger.spawn()
    const { sandbox, operation } = await ledger.spawn()
    await database.pool.query(`update sandman.sandboxes set ring_at = ring_at - interval '1 second' where id = $1`, [
      sandbox.id,
    ])
    clock.advance(5_000)
    await ledger.ask(sandbox.id, 'pause')
    await ledger.ask(sandbox.id, 'pause')
    clock.advance(5_000)
    expect(await claim(1)).toEqual([{ operationId: operation.id, kind: 'spawn' }])
    expect(await claim(1)).toEqual([{ operationId: young.operation.id, kind: 'spawn' }])
  })

  test('is left alone for longer once a worker has taken it, and then comes up as well', async () => {
    const { operation } = await ledger.spawn()
    await ledger.begin(operation.id)
    clock.advance(59_999)
    expect(await claim()).toEqual([])
    clock.advance(1)
    expect(await claim()).toHaveLength(1)
  })

  test('comes up as well when it was next in line and its caller died before it rang', async () => {
    const { id } = await ledger.at('running')
    const pause = await ledger.ask(id, 'pause')
    const resume = await ledger.ask(id, 'resume')
    await ledger.perform(pause.operation.id)
    clock.advance(10_000)
    expect(await claim()).toEqual([{ operationId: resume.operation.id, kind: 'resume' }])
  })

  test('is given to one of many who ask, in bounded batches, and never to another fleet', async () => {
    const operations = []
    for (let n = 0; n < 25; n++) operations.push((await ledger.spawn()).operation.id)
    clock.advance(10_000)
    expect(await claimUnheard(database.db, { fleet: randomUUID(), max: 10, clock })).toEqual([])
    const claims = await Promise.all([claim(), claim(), claim(), claim()])
    for (const claimed of claims) expect(claimed.length).toBeLessThanOrEqual(10)
    const claimed = [...claims.flat(), ...(await claim(25))].map(({ operationId }) => operationId)
    expect(claimed.toSorted()).toEqual(operations.toSorted())
  })
})
