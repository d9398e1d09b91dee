import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { type LedgerTest, ledgerOn, useLedger } from '../support/ledger.ts'

let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
let clock: LedgerTest['clock']
useLedger((given) => {
  ;({ database, ledger, clock } = given)
})

describe('an idempotency key', () => {
  const key = 'a-key'

  test('makes a repeated request the same operation, also long after it has settled', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'pause', { idempotencyKey: key })
    await ledger.drain(id)
    await ledger.ask(id, 'resume')
    await ledger.drain(id)
    const again = await ledger.ask(id, 'pause', { idempotencyKey: key })
    expect(again).toMatchObject({ answer: 'repeated', operation: { id: first.operation.id, status: 'succeeded' } })
    expect(again.sandbox.state).toBe('running')
  })

  test('also names the operation that its request joined', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'pause')
    await ledger.ask(id, 'pause', { idempotencyKey: key })
    await ledger.drain(id)
    await ledger.ask(id, 'resume')
    await ledger.drain(id)
    expect(await ledger.ask(id, 'pause', { idempotencyKey: key })).toMatchObject({
      answer: 'repeated',
      operation: { id: first.operation.id },
    })
  })

  test('makes a repeated spawn the same sandbox', async () => {
    const first = await ledger.spawn({ idempotencyKey: key, spec: { template: 'a' } })
    const again = await ledger.spawn({ idempotencyKey: key, spec: { template: 'a' } })
    expect(again).toMatchObject({ answer: 'repeated', sandbox: { id: first.sandbox.id } })
    for (const other of [{ spec: { template: 'b' } }, { backend: 'other' }, { metadata: { owner: 'you' } }]) {
      const reuse = ledger.spawn({ idempotencyKey: key, spec: { template: 'a' }, ...other })
      await expect(reuse).rejects.toMatchObject({ code: 'idempotency_key_reused' })
    }
    const { count } = await database.db
      .selectFrom('sandboxes')
      .select((eb) => eb.fn.countAll<number>().as('count'))
      .where('fleet', '=', ledger.fleet)
      .executeTakeFirstOrThrow()
    expect(count).toBe(1)
  })

  test('compares the thread that a spawn was asked for with, also when a new life has none any more', async () => {
    const threaded = { idempotencyKey: key, spec: { template: 'a' }, agentThreadId: 'thread-1' }
    const { sandbox } = await ledger.spawn(threaded)
    const expectCompared = async () => {
      expect(await ledger.spawn(threaded)).toMatchObject({ answer: 'repeated', sandbox: { id: sandbox.id } })
      for (const agentThreadId of ['thread-2', undefined])
        await expect(ledger.spawn({ ...threaded, agentThreadId })).rejects.toMatchObject({
          code: 'idempotency_key_reused',
        })
    }
    await expectCompared()
    await ledger.drain(sandbox.id)
    await ledger.ask(sandbox.id, 'kill')
    await ledger.drain(sandbox.id)
    await ledger.ask(sandbox.id, 'resume', { options: { if_lost: 'respawn' } })
    await ledger.drain(sandbox.id)
    expect(await ledger.sandbox(sandbox.id)).toMatchObject({ state: 'running', agent_thread_id: null })
    await expectCompared()
  })

  test('of a spawn without a thread is not that of one with it', async () => {
    await ledger.spawn({ idempotencyKey: key })
    await expect(ledger.spawn({ idempotencyKey: key, agentThreadId: 'thread-1' })).rejects.toMatchObject({
      code: 'idempotency_key_reused',
    })
  })

  test('cannot name two requests', async () => {
    const { id } = await ledger.at('running')
    const other = await ledger.at('running')
    const first = await ledger.ask(id, 'snapshot', { idempotencyKey: key })
    for (const reuse of [
      () => ledger.ask(id, 'kill', { idempotencyKey: key }),
      () => ledger.ask(id, 'snapshot', { idempotencyKey: key, options: { name: 'x' } }),
      () => ledger.ask(other.id, 'snapshot', { idempotencyKey: key }),
      () => ledger.spawn({ idempotencyKey: key }),
    ]) {
      await expect(reuse()).rejects.toMatchObject({
        code: 'idempotency_key_reused',
        message: expect.stringContaining(first.operation.id),
      })
    }
    expect(await ledger.operations(id)).toHaveLength(2)
    expect(await ledger.operations(other.id)).toHaveLength(1)
  })

  test('twenty times at once is one spawn', async () => {
    const answers = await Promise.all(Array.from({ length: 20 }, () => ledger.spawn({ idempotencyKey: key })))
    expect(new Set(answers.map(({ sandbox }) => sandbox.id)).size).toBe(1)
    expect(answers.filter(({ answer }) => answer === 'work')).toHaveLength(1)
  })

  test('belongs to its fleet', async () => {
    const stranger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    const mine = await ledger.spawn({ idempotencyKey: key })
    const theirs = await stranger.spawn({ idempotencyKey: key })
    expect(theirs.answer).toBe('work')
    expect(theirs.sandbox.id).not.toBe(mine.sandbox.id)
  })
})
