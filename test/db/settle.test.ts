import { randomUUID } from 'node:crypto'
import { describe, expect, test } from 'vitest'
import { listEvents } from '../../src/db/events.ts'
import { failure } from '../../src/sandbox/failures.ts'
import { endingOf, type LedgerTest, ledgerOn, useLedger } from '../support/ledger.ts'

let database: LedgerTest['database']
let ledger: LedgerTest['ledger']
let clock: LedgerTest['clock']
useLedger((given) => {
  ;({ database, ledger, clock } = given)
})

describe('a worker', () => {
  test('takes an operation with a fence of its own, and finds with it all that it needs', async () => {
    const { id, checkpoint_id } = await ledger.at('suspended')
    const { operation } = await ledger.ask(id, 'resume')
    clock.advance(5_000)
    const taken = await ledger.begin(operation.id, 'worker-7')
    expect(taken).toMatchObject({
      operation: { id: operation.id, attempt: 1, taken_by: 'worker-7', taken_at: new Date('2026-03-01T12:00:05Z') },
      sandbox: { id, state: 'resuming' },
      checkpoint: { id: checkpoint_id, status: 'ready' },
    })
    const again = await ledger.begin(operation.id)
    expect(again.operation.attempt).toBe(2)
    expect(again.attempt.fence).toBe(taken.attempt.fence + 1)
  })

  test('finds nothing to take before its turn, after the end, or in another fleet', async () => {
    const { id } = await ledger.at('running')
    const first = await ledger.ask(id, 'pause')
    const second = await ledger.ask(id, 'resume')
    const stranger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    expect(await ledger.tryBegin(second.operation.id)).toEqual({ attempt: undefined, because: 'waiting' })
    expect(await ledger.tryBegin('op_nothing')).toEqual({ attempt: undefined, because: 'unknown' })
    expect(await stranger.tryBegin(first.operation.id)).toEqual({ attempt: undefined, because: 'unknown' })
    await ledger.drain(id)
    expect(await ledger.tryBegin(first.operation.id)).toEqual({ attempt: undefined, because: 'ended' })
  })

  test('that was presumed dead changes nothing when it comes back, and is told so', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'pause')
    const slow = await ledger.begin(operation.id, 'slow')
    const quick = await ledger.begin(operation.id, 'quick')
    const before = await ledger.sandbox(id)
    expect(await ledger.tryEnd(slow.attempt, endingOf(slow, 'loses'))).toEqual({ settled: false })
    expect(await ledger.sandbox(id)).toEqual(before)
    await ledger.end(quick.attempt, endingOf(quick, 'works'))
    expect(await ledger.tryEnd(slow.attempt, endingOf(slow, 'loses'))).toEqual({ settled: false })
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'suspended' })
  })

  test('of another fleet cannot settle', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'kill')
    const taken = await ledger.begin(operation.id)
    const stranger = ledgerOn(database.db, { fleet: randomUUID(), clock })
    const attempt = { ...taken.attempt, fleet: stranger.fleet }
    expect(await stranger.tryEnd(attempt, endingOf(taken, 'works'))).toEqual({ settled: false })
  })

  test('cannot store a pause that left no checkpoint as suspended', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'pause')
    const { attempt } = await ledger.begin(operation.id)
    const lie = ledger.tryEnd(attempt, { status: 'succeeded', outcome: 'done', rest: { state: 'suspended' } })
    await expect(lie).rejects.toMatchObject({ constraint: 'sandboxes_suspended_has_checkpoint' })
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'pausing', operation_id: operation.id })
  })
})

describe('settling', () => {
  test('a resume that failed keeps the checkpoint, and one that lost it says which', async () => {
    const { id, checkpoint_id } = await ledger.at('suspended')
    const first = await ledger.ask(id, 'resume')
    const failed = await ledger.perform(first.operation.id, 'fails')
    expect(failed.sandbox).toMatchObject({ state: 'suspended', checkpoint_id })

    const second = await ledger.ask(id, 'resume')
    const { attempt } = await ledger.begin(second.operation.id)
    const lost = await ledger.end(attempt, {
      status: 'failed',
      error: failure('checkpoint_missing', 'the provider does not have it', checkpoint_id as string),
      rest: { state: 'gone', reason: 'checkpoint_missing' },
      checkpoints: { which: 'own', are: 'missing' },
      evidence: { status: 404 },
    })
    expect(lost.sandbox).toMatchObject({ state: 'gone', gone_reason: 'checkpoint_missing', checkpoint_id: null })
    expect(lost.operation.error).toMatchObject({ error_type: 'checkpoint_missing', checkpoint_id })
    const last = (await listEvents(database.db, id)).at(-1)
    expect(last).toMatchObject({
      type: 'ended',
      from_state: 'resuming',
      detail: { reason: 'checkpoint_missing', evidence: { status: 404 }, error: { checkpoint_id } },
    })
    const checkpoints = await database.db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', id).execute()
    expect(checkpoints).toMatchObject([{ id: checkpoint_id, status: 'missing' }])
  })

  test('a destroy forgets every checkpoint, and one that failed forgets none', async () => {
    const { id } = await ledger.at('running')
    await ledger.perform((await ledger.ask(id, 'snapshot')).operation.id)
    await ledger.perform((await ledger.ask(id, 'pause')).operation.id)
    const failed = await ledger.perform((await ledger.ask(id, 'destroy')).operation.id, 'fails')
    expect(failed.sandbox.state).toBe('suspended')
    await ledger.perform((await ledger.ask(id, 'destroy')).operation.id)
    const checkpoints = await database.db.selectFrom('checkpoints').selectAll().where('sandbox_id', '=', id).execute()
    expect(checkpoints.map(({ kind, status }) => [kind, status])).toEqual([
      ['snapshot', 'deleted'],
      ['pause', 'deleted'],
    ])
  })

  test('answers those who have nothing to do, and calls the first who has', async () => {
    const { id } = await ledger.at('running')
    const pause = await ledger.ask(id, 'pause')
    const [spawn, kill, resume, snapshot, destroy] = [
      await ledger.ask(id, 'spawn'),
      await ledger.ask(id, 'kill'),
      await ledger.ask(id, 'resume'),
      await ledger.ask(id, 'pause'),
      await ledger.ask(id, 'destroy'),
    ]
    const settled = await ledger.perform(pause.operation.id)
    expect(settled).toMatchObject({
      answered: [spawn.operation.id, kill.operation.id],
      next: { operationId: resume.operation.id, kind: 'resume' },
      sandbox: { state: 'resuming', waiting: 2, tail_id: destroy.operation.id },
    })
    expect(await ledger.statusOf(snapshot.operation.id)).toEqual({ status: 'waiting', outcome: null })
    await ledger.drain(id)
    expect(await ledger.sandbox(id)).toMatchObject({ state: 'gone', gone_reason: 'destroyed' })
  })

  test('a respawn begins a new life under the same id, without the thread of the old one', async () => {
    const { id, provider_ref } = await ledger.at('gone', { agentThreadId: 'thread' })
    const { sandbox, operation } = await ledger.ask(id, 'resume', { options: { if_lost: 'respawn' } })
    expect(sandbox).toMatchObject({
      id,
      state: 'provisioning',
      gone_reason: null,
      provider_ref: null,
      agent_thread_id: null,
    })
    const settled = await ledger.perform(operation.id)
    expect(settled).toMatchObject({ operation: { outcome: 'respawned' }, sandbox: { state: 'running' } })
    expect(settled.sandbox.provider_ref).not.toBe(provider_ref)
  })

  test('a loss is followed by the respawn that waits for it', async () => {
    const { id } = await ledger.at('suspended', { agentThreadId: 'thread' })
    const resume = await ledger.ask(id, 'resume')
    const respawn = await ledger.ask(id, 'resume', { options: { if_lost: 'respawn' } })
    const lost = await ledger.perform(resume.operation.id, 'loses')
    expect(lost).toMatchObject({
      sandbox: { state: 'provisioning', gone_reason: null, agent_thread_id: null, provider_ref: null },
      next: { operationId: respawn.operation.id },
    })
    await ledger.drain(id)
    expect(await ledger.statusOf(respawn.operation.id)).toEqual({ status: 'succeeded', outcome: 'respawned' })
  })
})
