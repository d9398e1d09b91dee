import { afterAll, beforeAll, expect, test } from 'vitest'
import type { Ending } from '../../src/db/ending.ts'
import { listEvents } from '../../src/db/events.ts'
import { failure } from '../../src/sandbox/failures.ts'
import type { Kind, Options } from '../../src/sandbox/judge.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { ledgerOn } from '../support/ledger.ts'
import { withoutIds } from '../support/walk.ts'

let database: TestDatabase
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database.drop())

/**
 * One sandbox from its spawn to its destruction, with everything that is stored of it: life.txt. A second passes before each
 * statement, so that every time in there is the time of the statement that wrote it.
 */
test('a whole life, to the last column', async () => {
  const clock = stoppedClock('2026-01-01T00:00:00Z')
  const ledger = ledgerOn(database.db, { fleet: 'life', clock })
  const pages: string[] = []
  const spawned = await ledger.spawn({ agentThreadId: 'thread', spec: { template: 'node' }, metadata: { owner: 'me' } })
  const { id } = spawned.sandbox

  const show = (row: object) =>
    Object.entries(row)
      .filter(([column, value]) => value !== null && !HIDDEN.includes(column))
      .map(([column, value]) => `${column}=${value instanceof Date ? seconds(value) : JSON.stringify(value)}`)
      .join(' ')
  const look = async (what: string) => {
    const checkpoints = await database.db.selectFrom('checkpoints').selectAll().orderBy('id').execute()
    pages.push(`# ${what}`, show(await ledger.sandbox(id)), ...checkpoints.map(show), '')
  }
  const ask = async (kind: Kind, options: Options = {}) => {
    clock.advance(1_000)
    const { answer, operation } = await ledger.ask(id, kind, { options })
    await look(`${kind}: ${answer}`)
    return operation.id
  }
  const perform = async (operationId: string, ending: Ending) => {
    clock.advance(1_000)
    const { attempt, operation } = await ledger.begin(operationId)
    await look(`${operation.kind}: taken`)
    clock.advance(1_000)
    const { next } = await ledger.end(attempt, ending)
    await look(`${operation.kind}: ${ending.status}`)
    return next?.operationId as string
  }
  const done = { status: 'succeeded', outcome: 'done' } as const
  const life = (n: number) =>
    ({ state: 'running', incarnation: `life ${n}`, previewUrl: `https://${n}.example` }) as const
  const unreachable = failure('sandbox_unreachable', 'no answer')

  await look('spawn: work')
  await perform(spawned.operation.id, { ...done, rest: { ...life(1), providerRef: 'instance' } })
  await perform(await ask('snapshot', { name: 'first' }), {
    ...done,
    rest: { state: 'running', snapshot: { kind: 'snapshot', providerRef: 'copy', name: 'first', sizeBytes: 1_000 } },
  })
  const pause = await ask('pause')
  await ask('kill')
  await ask('snapshot')
  const resume = await ask('resume')
  await perform(pause, {
    ...done,
    rest: { state: 'suspended', checkpoint: { kind: 'pause', providerRef: 'asleep', sizeBytes: 2 ** 40 } },
    evidence: { seen: 'paused' },
  })
  await perform(resume, { ...done, rest: life(2), checkpoints: { which: 'own', are: 'deleted' } })
  await perform(await ask('kill'), { status: 'failed', error: unreachable, rest: { state: 'running' } })
  const second = await ask('pause')
  const respawn = await ask('resume', { if_lost: 'respawn' })
  await perform(second, {
    status: 'failed',
    error: failure('checkpoint_missing', 'it never arrived'),
    rest: { state: 'gone', reason: 'checkpoint_missing' },
  })
  await perform(respawn, { status: 'succeeded', outcome: 'respawned', rest: { ...life(3), providerRef: 'another' } })
  await perform(await ask('destroy'), {
    ...done,
    rest: { state: 'gone', reason: 'destroyed' },
    checkpoints: { which: 'all', are: 'deleted' },
  })
  await ask('destroy')
  await ask('resume')

  pages.push('# operations', ...(await ledger.operations(id)).map(show), '')
  pages.push('# events', ...(await listEvents(database.db, id)).map(show), '')
  await expect(withoutIds(pages.join('\n'))).toMatchFileSnapshot('./life.txt')
  await ledger.expectInvariants()
})

/** Counters of the whole database, what follows from other columns, and what is long. */
const HIDDEN = [
  'place',
  'judgement',
  'fingerprint',
  'tail_fingerprint',
  'checkpoint_status',
  'operation_status',
  'at_work_on',
]

const seconds = (at: Date) => `${(at.getTime() - Date.parse('2026-01-01T00:00:00Z')) / 1_000}s`

test('a sandbox that is respawned by its own resume has lost the thread of its agent', async () => {
  const ledger = ledgerOn(database.db, { fleet: 'respawn', clock: stoppedClock('2026-01-01T00:00:00Z') })
  const { id } = await ledger.at('suspended', { agentThreadId: 'thread' })
  const { operation, sandbox } = await ledger.ask(id, 'resume', { options: { if_lost: 'respawn' } })
  expect(sandbox.agent_thread_id).toBe('thread')
  const { attempt } = await ledger.begin(operation.id)
  const settled = await ledger.end(attempt, {
    status: 'succeeded',
    outcome: 'respawned',
    rest: { state: 'running', providerRef: 'another', incarnation: 'another' },
    checkpoints: { which: 'own', are: 'missing' },
  })
  expect(settled.sandbox).toMatchObject({ agent_thread_id: null, provider_ref: 'another', incarnation: 'another' })
  await ledger.expectInvariants()
})
