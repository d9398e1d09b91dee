import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { endExecution, startExecution } from '../../src/db/executions.ts'
import { recordFailure } from '../../src/db/fail.ts'
import { recordAct, recordFirstLooks, recordLook } from '../../src/db/findings.ts'
import { pruneEvents } from '../../src/db/prune.ts'
import type { EventRow, ExecutionRow, FindingRow, OperationRow, SandboxRow } from '../../src/db/schema.ts'
import type { Ending } from '../../src/db/settle.ts'
import { findWhy, printWhy, tellWhy } from '../../src/fleet/why.ts'
import type { Cause } from '../../src/sandbox/causes.ts'
import { EXECUTION_REASONS } from '../../src/sandbox/executions.ts'
import { FAILURES, type FailureType, failure } from '../../src/sandbox/failures.ts'
import { FINDINGS, type FindingKind, type Look } from '../../src/sandbox/findings.ts'
import { KINDS } from '../../src/sandbox/judge.ts'
import { LIMIT_NAMES } from '../../src/sandbox/limits.ts'
import { ENTRIES, GONE_REASONS, moveBetween, STATES, TRANSITIONS } from '../../src/sandbox/states.ts'
import { type LedgerTest, ledgerOn, useLedger } from '../support/ledger.ts'

const MINUTE_MS = 60_000
const DAY_MS = 86_400_000

describe('there are words for', () => {
  const moves = [
    ...Object.keys(ENTRIES).map((to) => [null, to] as const),
    ...Object.entries(TRANSITIONS).flatMap(([from, row]) => Object.keys(row).map((to) => [from, to] as const)),
  ] as [EventRow['from_state'], SandboxRow['state']][]

  test.each(moves)('the move from %s to %s, however it went, and whether or not an operation is known', (from, to) => {
    const error = failure('sandbox_unreachable', 'no answer')
    for (const detail of [
      {},
      { status: 'succeeded', outcome: 'done' },
      { outcome: 'respawned' },
      { status: 'failed', error },
    ])
      for (const operations of [[], [anOperation({ attempt: 3, failures: 1, last_error: error })]])
        expectWords(
          of(
            {
              type: moveBetween(from, to) as EventRow['type'],
              from_state: from,
              to_state: to,
              operation_id: 'op_1',
              detail,
            },
            { operations },
          ),
        )
  })

  const others = {
    execution_queued: true,
    execution_started: true,
    execution_ended: true,
    instance_swept: true,
    checkpoint_swept: true,
    checkpoint_lost: true,
  } satisfies Record<Exclude<EventRow['type'], ReturnType<typeof moveBetween>>, true>
  test.each(Object.keys(others) as EventRow['type'][])('the event %s, with and without a detail', (type) => {
    expectWords(of({ type, execution_id: 'exe_1' }))
    const detail = {
      status: 'failed',
      reason: 'error',
      found: 'instance_unowned',
      backend: 'local',
      ref: 'box-1',
      looks: LOOKS,
    }
    expectWords(
      of({ type, execution_id: 'exe_1', detail }, { executions: [{ id: 'exe_1', command: null } as ExecutionRow] }),
    )
  })

  test('an event that only a newer release knows', () => {
    expectWords(of({ type: 'moon_landed' as EventRow['type'], detail: { by_whom: ['us', 'them'] } }))
  })

  test.each(STATES)('being %s, with and without a history', (state) => {
    expectWords(tellWhy({ ...NOTHING, sandbox: aSandbox({ state }) }))
    expectWords(of({ type: 'adopted', to_state: state }, { sandbox: aSandbox({ state }) }))
  })

  test.each(GONE_REASONS)('gone because of %s', (reason) => {
    const sandbox = aSandbox({ state: 'gone', gone_reason: reason })
    const why = of({ type: 'ended', to_state: 'gone', detail: { reason } }, { sandbox })
    expectWords(why)
    expect(why.story[0]?.text).not.toContain('not kept')
    expect(why.answer).not.toContain('not kept')
  })

  test.each(Object.keys(EXECUTION_REASONS))('an execution that ended with %s', (reason) => {
    const why = of({
      type: 'execution_ended',
      execution_id: 'exe_1',
      detail: { status: 'failed', reason, exit_code: 3 },
    })
    expectWords(why)
    expect(why.story[0]?.text).toMatch(/^Execution exe_1 failed with exit code 3: \w/)
  })

  test.each(Object.keys(FAILURES) as FailureType[])('the failure %s', (type) => {
    const detail = { status: 'failed', error: failure(type, 'so it was said.') }
    const why = of(
      { type: 'pause_failed', to_state: 'running', operation_id: 'op_1', detail },
      { operations: [anOperation()] },
    )
    expectWords(why)
    expect(why.story[0]?.text).toContain(`The pause failed as ${type.replaceAll('_', ' ')}: so it was said.`)
  })

  const causes: (Cause | null)[] = [
    null,
    ...LIMIT_NAMES.flatMap((limit) =>
      (['sandbox', 'fleet'] as const).map((of): Cause => ({ by: 'reaper', limit, since: AT, limit_ms: 1_000, of })),
    ),
    ...Object.keys(FINDINGS).map(
      (found): Cause => ({ by: 'sweeper', found: found as FindingKind, ref: 'box-1', looks: LOOKS }),
    ),
    { by: 'execution', execution_id: 'exe_1' },
  ]
  test.each(causes)('whoever asks for anything: %j', (cause) => {
    const options = [
      {},
      { only: 'lost', if_lost: 'respawn', if_unsupported: 'kill', adopt: { ref: 'box-1' }, name: 'copy' },
    ]
    for (const kind of KINDS)
      for (const given of options) {
        const operation = anOperation({ kind, cause, options: given as OperationRow['options'] })
        const why = of({ type: 'pause_began', to_state: 'pausing', operation_id: 'op_1' }, { operations: [operation] })
        expectWords(why)
        if (cause?.by === 'sweeper')
          expect(why.story[0]?.text).toContain('Look 2, on 2026-03-01 12:02:00Z at here: asked for')
      }
  })

  test.each(Object.keys(FINDINGS) as FindingKind[])('a suspicion of %s', (kind) => {
    const finding = {
      kind,
      ref: 'box-1',
      backend: 'local',
      looks: LOOKS,
      first_seen_at: new Date(AT),
      look_at: new Date(AT),
    }
    const why = tellWhy({ ...NOTHING, findings: [{ ...finding, acted_at: null } as FindingRow] })
    expectWords(why)
    expect(why.story).toHaveLength(1)
  })

  test('what was seen at a provider, also what nobody has thought of yet', () => {
    const evidence = {
      seen: 'lost: its disk is full',
      checkpoint: { ref: 'tar-1', is: 'corrupt', why: 'it is cut off.' },
      lease: { asked_ms: 5_400_000, ends_at: '2026-03-01T13:30:00.000Z' },
      lingering: 'a timeout',
      preview: 'backend local has no address for port 80',
      left_over: 'an instance',
      lost: 'it was deleted',
      put_back: 'it hangs',
      moon_phase: { is_full: true, nth: [1, 2], seen_by: null },
    }
    const why = of({ type: 'resumed', to_state: 'running', detail: { evidence, checkpoint_id: 'ckpt_1' } })
    expectWords(why)
    expect(why.story[0]?.text.replaceAll('. ', '.\n')).toMatchInlineSnapshot(`
      "It is awake.
      Its checkpoint is ckpt_1.
      Its provider showed it lost: its disk is full.
      The checkpoint tar-1 was seen to be corrupt: it is cut off.
      Its time-to-live was set to 1 hour and 30 minutes, and its provider ends it on 2026-03-01 13:30:00Z.
      What lingered in it could not be ended: a timeout.
      It has no preview: backend local has no address for port 80.
      Something of it may be left over: an instance.
      It had been lost: it was deleted.
      It could not be put back to sleep: it hangs.
      Moon phase: is full true, nth 1, 2, seen by nothing."
    `)
  })

  test('sizes and times, as people say them', () => {
    const said = (bytes: number, ms: number) => {
      const evidence = { checkpoint: { ref: 'tar-1', is: 'ready', sizeBytes: bytes }, lease: { asked_ms: ms } }
      const [{ text } = { text: '' }] = of({ type: 'resumed', detail: { evidence } }).story
      return [/whole \((.*?)\)/, /set to (.*?),/].map((pattern) => pattern.exec(text)?.[1])
    }
    expect(said(0, 0)).toEqual(['0 bytes', 'no time'])
    expect(said(1, 1)).toEqual(['1 byte', '1 millisecond'])
    expect(said(1_536, 900_000)).toEqual(['1.5 KiB', '15 minutes'])
    expect(said(2 ** 31, 7_200_000)).toEqual(['2 GiB', '2 hours'])
    expect(said(2 ** 52, 90_061_001)).toEqual(['4096 TiB', '1 day and 1 hour'])
  })
})

test('what a provider has said moves no cursor and begins no line', () => {
  const error = failure('internal', 'first\nsecond \u001b[2J third...')
  const why = of(
    { type: 'pause_failed', to_state: 'running', operation_id: 'op_1', detail: { error } },
    { operations: [anOperation()] },
  )
  expect(why.story[0]?.text).toContain('failed as internal: first second [2J third.')
  expect(printWhy(why).split('\n')).toHaveLength(3)
})

describe('from the database', () => {
  let ledger: LedgerTest['ledger']
  let clock: LedgerTest['clock']
  useLedger((given) => {
    ;({ ledger, clock } = given)
  })

  const why = async (id: string) => {
    const found = await findWhy(ledger.db, { fleet: ledger.fleet, id })
    if (!found) throw new Error(`there is no ${id}`)
    expectWords(found)
    return found
  }
  const done = { status: 'succeeded', outcome: 'done' } as const
  const awake = { state: 'running', providerRef: 'box-1', incarnation: 'life 1' } as const
  /** Minutes pass, a worker begins, seconds pass, and it ends. */
  const perform = async (operationId: string, ending: Ending) => {
    const { attempt } = await ledger.begin(operationId)
    clock.advance(2_000)
    return ledger.end(attempt, ending)
  }

  /** A sandbox that came from elsewhere, and what was written of that. */
  const bringIn = async () => {
    const id = `sbx_${randomUUID().replaceAll('-', '')}`
    await sql`insert into sandman.sandboxes
        (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, provider_ref, created_at, last_active_at)
      select ${id}, ${ledger.fleet}, 'test', true, true, 'running', now, ${`box of ${id}`}, now, now
      from (select ${clock.stoppedAt()}::timestamptz as now) as given`.execute(ledger.db)
    return id
  }
  const takeOver = (id: string) =>
    sql`insert into sandman.events (sandbox_id, at, type, to_state, fence)
      values (${id}, ${clock.stoppedAt()}, 'adopted', 'running', 0)`.execute(ledger.db)
  const loseCheckpoints = (id: string, count: number) =>
    sql`insert into sandman.events (sandbox_id, at, type, detail)
      select ${id}, ${clock.stoppedAt()}, 'checkpoint_lost', jsonb_build_object('ref', n::text)
      from generate_series(1, ${count}::int) as n`.execute(ledger.db)

  test('a whole life is told, with everybody who asked and everything that was seen', async () => {
    const { sandbox, operation } = await ledger.spawn({ ttl: { idleMs: 15 * MINUTE_MS } })
    const { id } = sandbox
    await perform(operation.id, { ...done, rest: awake, evidence: { seen: 'running', lease: { asked_ms: 3_600_000 } } })

    const execution = await ledger.execute(id, { command: ['npm', 'test'] })
    await startExecution(ledger.db, { id: execution.id, incarnation: 'life 1', clock })
    clock.advance(MINUTE_MS)
    const end = { status: 'failed', reason: 'error', exitCode: 3, message: 'It ended with exit code 3.' } as const
    await endExecution(ledger.db, { id: execution.id, end, clock })

    clock.advance(15 * MINUTE_MS)
    const since = (await ledger.sandbox(id)).last_active_at.toISOString()
    const idle: Cause = { by: 'reaper', limit: 'idle', since, limit_ms: 15 * MINUTE_MS, of: 'sandbox' }
    const pause = await ledger.ask(id, 'pause', { cause: idle })
    const checkpoint = { kind: 'pause', providerRef: 'tar-1', sizeBytes: 2 ** 31 } as const
    await perform(pause.operation.id, {
      ...done,
      rest: { state: 'suspended', checkpoint },
      evidence: { seen: 'suspended', checkpoint: { ref: 'tar-1', is: 'ready', sizeBytes: 2 ** 31 } },
    })
    expect(named((await why(id)).answer)).toMatchInlineSnapshot(
      `"sbx_1 has been asleep since 2026-03-01 12:16:04Z, resting on checkpoint ckpt_2 (2 GiB): the reaper asked to pause it, because it had idled for as long as its own limit allows (15 minutes, counted from 2026-03-01 12:01:02Z)."`,
    )

    clock.advance(60 * MINUTE_MS)
    const resume = await ledger.ask(id, 'resume')
    const first = await ledger.begin(resume.operation.id)
    const refused = failure('rate_limited', 'too many requests')
    await recordFailure(ledger.db, { attempt: first.attempt, failure: refused, acted: false, clock })
    await ledger.begin(resume.operation.id) // and is not heard of again
    const error = failure('sandbox_unreachable', 'The provider did not answer within 10 seconds.')
    await perform(resume.operation.id, { status: 'failed', error, rest: { state: 'suspended' } })
    expect(named((await why(id)).answer)).toMatchInlineSnapshot(
      `"sbx_1 has been asleep since 2026-03-01 12:16:04Z, resting on checkpoint ckpt_2 (2 GiB): the reaper asked to pause it, because it had idled for as long as its own limit allows (15 minutes, counted from 2026-03-01 12:01:02Z); then an app asked to wake it, and that failed as sandbox unreachable: The provider did not answer within 10 seconds."`,
    )

    const looks = [0, 1].map(() => {
      clock.advance(MINUTE_MS)
      return {
        at: clock.stoppedAt()?.toISOString() as string,
        place: 'account 7',
        asked: 'checkpoint tar-1',
        saw: 'it is missing: no such file',
      }
    })
    const found: Cause = { by: 'sweeper', found: 'checkpoint_missing', ref: 'tar-1', looks }
    const swept = await ledger.ask(id, 'destroy', { options: { only: 'lost' }, cause: found })
    await perform(swept.operation.id, {
      ...done,
      rest: { state: 'gone', reason: 'checkpoint_missing' },
      checkpoints: { which: 'own', are: 'missing' },
      evidence: { seen: 'absent' },
    })

    const told = await why(id)
    expect(told).toMatchObject({ sandboxId: id, isComplete: true })
    expect(named(printWhy(told))).toMatchInlineSnapshot(`
      "sbx_1 has been gone since 2026-03-01 13:18:08Z: there is no checkpoint that it could be woken from; the sweeper had asked to end it if it is lost, because a checkpoint of it is missing, or cannot be read (tar-1).

      2026-03-01 12:00:00Z  An app asked to make it; making it began.
      2026-03-01 12:00:02Z  It came to life, and runs. Its provider showed it running. Its time-to-live was set to 1 hour, and its provider names no end.
      2026-03-01 12:00:02Z  Execution exe_2 was asked for, to run: npm test.
      2026-03-01 12:00:02Z  Execution exe_2 began.
      2026-03-01 12:01:02Z  Execution exe_2 failed with exit code 3: its agent ended with an error, or could not be started. It ended with exit code 3.
      2026-03-01 12:16:02Z  The reaper asked to pause it, because it had idled for as long as its own limit allows (15 minutes, counted from 2026-03-01 12:01:02Z); pausing began.
      2026-03-01 12:16:04Z  It was put to sleep. Its checkpoint is ckpt_3. Its provider showed it asleep. The checkpoint tar-1 was seen to be whole (2 GiB).
      2026-03-01 13:16:04Z  An app asked to wake it; waking began.
      2026-03-01 13:16:06Z  It could not be woken, and sleeps on. The resume failed as sandbox unreachable: The provider did not answer within 10 seconds. It took 3 attempts, of which 1 was cut off; an earlier one failed as rate limited: too many requests. Its checkpoint is ckpt_3.
      2026-03-01 13:18:06Z  The sweeper asked to end it if it is lost, because a checkpoint of it is missing, or cannot be read (tar-1); ending it began. Look 1, on 2026-03-01 13:17:06Z at account 7: asked for checkpoint tar-1, and saw that it is missing: no such file. Look 2, on 2026-03-01 13:18:06Z at account 7: asked for checkpoint tar-1, and saw that it is missing: no such file.
      2026-03-01 13:18:08Z  It is gone: there is no checkpoint that it could be woken from. Its provider showed nothing of it."
    `)
  })

  test('what failed in between has not brought a sandbox to where it is, and is told besides', async () => {
    const { id } = await ledger.at('running')
    clock.advance(MINUTE_MS)
    await ledger.perform((await ledger.ask(id, 'snapshot')).operation.id)
    expect(named((await why(id)).answer)).toMatchInlineSnapshot(
      `"sbx_1 has been running since 2026-03-01 12:00:00Z: an app asked to make it."`,
    )
    clock.advance(MINUTE_MS)
    await ledger.perform((await ledger.ask(id, 'kill')).operation.id, 'fails')
    expect(named((await why(id)).answer)).toMatchInlineSnapshot(
      `"sbx_1 has been running since 2026-03-01 12:00:00Z: an app asked to make it; then an app asked to kill it, and that failed as sandbox unreachable: the provider does not answer."`,
    )

    // Nobody had asked for it to sleep: its provider did that, and a kill has found it so.
    clock.advance(MINUTE_MS)
    const error = failure('sandbox_unreachable', 'it sleeps')
    const checkpoint = { kind: 'pause', providerRef: 'tar-1', sizeBytes: 1_536 } as const
    const { operation } = await ledger.ask(id, 'kill')
    await perform(operation.id, { status: 'failed', error, rest: { state: 'suspended', checkpoint } })
    expect(named((await why(id)).answer)).toMatchInlineSnapshot(
      `"sbx_1 has been asleep since 2026-03-01 12:03:02Z, resting on checkpoint ckpt_2 (1.5 KiB): an app asked to kill it, and that failed as sandbox unreachable: it sleeps."`,
    )
  })

  test('what is happening now is told, with who waits behind it', async () => {
    const { id } = await ledger.at('running')
    const { operation } = await ledger.ask(id, 'snapshot', { options: { name: 'before' } })
    expect(named((await why(id)).story.at(-1)?.text)).toMatchInlineSnapshot(
      `"The snapshot is still to be done: no worker has begun it."`,
    )
    await ledger.ask(id, 'pause')
    await ledger.ask(id, 'resume')
    const { attempt } = await ledger.begin(operation.id, 'worker-1')
    await recordFailure(ledger.db, { attempt, failure: failure('internal', 'a bug'), acted: false, clock })
    clock.advance(30_000)
    await ledger.begin(operation.id, 'worker-2')
    const told = await why(id)
    expect(named(told.answer)).toMatchInlineSnapshot(
      `"sbx_1 has been getting copied since 2026-03-01 12:00:00Z: an app asked to copy it as "before"."`,
    )
    expect(told.story.at(-1)).toEqual({ at: clock.stoppedAt(), text: expect.any(String) })
    expect(named(told.story.at(-1)?.text)).toMatchInlineSnapshot(
      `"The snapshot is being worked on: attempt 2 was begun by worker-2. An attempt failed as internal: a bug. Behind it in line: 2 operations."`,
    )

    clock.advance(30_000)
    await ledger.drain(id)
    expect(named(printWhy(await why(id)))).toMatchInlineSnapshot(`
      "sbx_1 has been running since 2026-03-01 12:01:00Z: an app asked to wake it.

      2026-03-01 12:00:00Z  An app asked to make it; making it began.
      2026-03-01 12:00:00Z  It came to life, and runs.
      2026-03-01 12:00:00Z  An app asked to copy it as "before"; copying began.
      2026-03-01 12:01:00Z  It was copied, and runs on. It took 3 attempts, of which 1 was cut off; an earlier one failed as internal: a bug. The copy is ckpt_2.
      2026-03-01 12:01:00Z  An app asked to pause it; that waited in line from 2026-03-01 12:00:00Z on, and then pausing began.
      2026-03-01 12:01:00Z  It was put to sleep. Its checkpoint is ckpt_3.
      2026-03-01 12:01:00Z  An app asked to wake it; that waited in line from 2026-03-01 12:00:00Z on, and then waking began.
      2026-03-01 12:01:00Z  It is awake."
    `)
  })

  test('a pause that waits says for how many executions', async () => {
    const { id, incarnation } = await ledger.at('running')
    const execution = await ledger.execute(id)
    await startExecution(ledger.db, { id: execution.id, incarnation: incarnation as string, clock })
    await ledger.ask(id, 'pause', { options: { if_busy: 'wait' } })
    expect((await why(id)).story.at(-1)?.text).toBe(
      'The pause is still to be done: no worker has begun it. It is to wait until what runs there has ended: 1 execution.',
    )
  })

  test('an execution that had its sandbox woken is named as who asked', async () => {
    const { id } = await ledger.at('running')
    const pause = await ledger.ask(id, 'pause')
    const execution = await ledger.execute(id)
    await ledger.perform(pause.operation.id)
    const cause: Cause = { by: 'execution', execution_id: execution.id }
    await ledger.perform((await ledger.ask(id, 'resume', { cause })).operation.id)
    expect(named(printWhy(await why(id)))).toMatchInlineSnapshot(`
      "sbx_1 has been running since 2026-03-01 12:00:00Z: execution exe_2 asked to wake it, because it has to run there.

      2026-03-01 12:00:00Z  An app asked to make it; making it began.
      2026-03-01 12:00:00Z  It came to life, and runs.
      2026-03-01 12:00:00Z  An app asked to pause it; pausing began.
      2026-03-01 12:00:00Z  Execution exe_2 was asked for, to follow the agent that it was made with.
      2026-03-01 12:00:00Z  It was put to sleep. Its checkpoint is ckpt_3.
      2026-03-01 12:00:00Z  Execution exe_2 asked to wake it, because it has to run there; waking began.
      2026-03-01 12:00:00Z  It is awake."
    `)
  })

  test('what the sweeper suspects is told until something was done about it, and then what that was', async () => {
    const { fleet, db } = ledger
    const { id } = await ledger.at('gone')
    const key = { fleet, backend: 'test', kind: 'instance_unowned', ref: 'box-1' } as const
    const seen = { place: 'account 7', asked: 'all instances', saw: `box-1 is there, and sandbox ${id} is gone` }
    clock.advance(MINUTE_MS)
    await recordFirstLooks(db, [{ ...key, ...seen, sandboxId: id }], { againMs: 10 * MINUTE_MS, clock })
    expect(named((await why(id)).story.at(-1)?.text)).toMatchInlineSnapshot(
      `"The sweeper suspects that an instance carries its label, and belongs to no sandbox that lives (box-1 at test). Look 1, on 2026-03-01 12:01:00Z at account 7: asked for all instances, and saw that box-1 is there, and sandbox sbx_1 is gone. It looks again on 2026-03-01 12:11:00Z, and does nothing before."`,
    )

    clock.advance(10 * MINUTE_MS)
    await recordLook(db, key, { place: 'account 7', asked: 'what carries its label', saw: 'box-1 is there' }, clock)
    await recordAct(db, key, { event: 'instance_swept', clock })
    const told = await why(id)
    expect(told.story).toHaveLength(5)
    expect(named(told.story.at(-1)?.text)).toMatchInlineSnapshot(
      `"The sweeper ended the instance box-1 at test, because an instance carries its label, and belongs to no sandbox that lives. Look 1, on 2026-03-01 12:01:00Z at account 7: asked for all instances, and saw that box-1 is there, and sandbox sbx_1 is gone. Look 2, on 2026-03-01 12:11:00Z at account 7: asked for what carries its label, and saw that box-1 is there."`,
    )
  })

  test('of a history that was pruned, what is left is told, with who had asked, and that it is not all', async () => {
    const { id } = await ledger.at('running')
    const cause: Cause = { by: 'sweeper', found: 'instance_missing', ref: 'box-1', looks: LOOKS }
    const { operation } = await ledger.ask(id, 'kill', { options: { only: 'lost' }, cause })
    await perform(operation.id, { ...done, rest: { state: 'gone', reason: 'expired' }, evidence: { seen: 'absent' } })
    expect(await why(id)).toMatchObject({ isComplete: true })

    clock.advance(100 * DAY_MS)
    expect(await pruneEvents(ledger.db, { fleet: ledger.fleet, olderThanMs: 90 * DAY_MS, max: 100, clock })).toBe(3)
    const told = await why(id)
    expect(told.isComplete).toBe(false)
    expect(named(printWhy(told))).toMatchInlineSnapshot(`
      "sbx_1 has been gone since 2026-03-01 12:00:02Z: its provider has nothing of it any more: its time-to-live ended, or somebody deleted it there; the sweeper had asked to end it if it is lost, because it should be there, and its provider has nothing of it (box-1).

      Not all of its history is told here: the rest is not kept, or is too much.
      2026-03-01 12:00:02Z  It is gone: its provider has nothing of it any more: its time-to-live ended, or somebody deleted it there. The sweeper had asked to end it if it is lost, because it should be there, and its provider has nothing of it (box-1). Look 1, on 2026-03-01 12:00:00Z at here: asked for box-1, which no list shows, and saw that there is no such instance. Look 2, on 2026-03-01 12:02:00Z at here: asked for box-1, and saw that it is lost: it was deleted. Its provider showed nothing of it."
    `)
  })

  test('of a history that is too long, the newest is told, and the last state change however old it is', async () => {
    const { id } = await ledger.at('running')
    clock.advance(1_000)
    await loseCheckpoints(id, 600)
    const told = await why(id)
    expect(told.isComplete).toBe(false)
    expect(told.story).toHaveLength(501)
    expect(told.story[0]?.text).toMatch(/^It came to life, and runs\. An app had asked to make it\./)
    expect(told.story.at(-1)?.text).toBe('The sweeper saw that the checkpoint 600 is not there, or not whole.')
    expect(told.answer).toMatch(/has been running since 2026-03-01 12:00:00Z: an app asked to make it\.$/)
  })

  test('of a sandbox that was imported, no more is told than is known', async () => {
    const id = await bringIn()
    const without = await why(id)
    expect(without).toMatchObject({ story: [], isComplete: false })
    expect(named(without.answer)).toMatchInlineSnapshot(
      `"sbx_1 has been running since 2026-03-01 12:00:00Z: how it came to that is not kept."`,
    )

    await takeOver(id)
    const told = await why(id)
    expect(told.isComplete).toBe(true)
    expect(named(printWhy(told))).toMatchInlineSnapshot(`
      "sbx_1 has been running since 2026-03-01 12:00:00Z: it was taken over like that.

      2026-03-01 12:00:00Z  It was taken over, running."
    `)
  })

  test('a gap behind how it came into being is not called a whole history', async () => {
    const id = await bringIn()
    await takeOver(id)
    await loseCheckpoints(id, 499)
    expect(await why(id)).toMatchObject({ isComplete: true, story: { length: 500 } })
    await loseCheckpoints(id, 100)
    expect(await why(id)).toMatchObject({
      isComplete: false,
      story: { length: 501, 0: { text: 'It was taken over, running.' } },
    })
  })

  test('of a sandbox that there is not, or that is of another fleet, nothing is told', async () => {
    const { id } = await ledger.at('running')
    const stranger = ledgerOn(ledger.db, { fleet: randomUUID(), clock })
    expect(await findWhy(ledger.db, { fleet: ledger.fleet, id: 'sbx_nothing' })).toBeUndefined()
    expect(await findWhy(ledger.db, { fleet: stranger.fleet, id })).toBeUndefined()
  })
})

const AT = '2026-03-01T12:00:00Z'

const LOOKS: Look[] = [
  { at: AT, place: 'here', asked: 'box-1, which no list shows', saw: 'there is no such instance.' },
  { at: '2026-03-01T12:02:00+00:00', place: 'here', asked: 'box-1', saw: 'it is lost: it was deleted.' },
]

const NOTHING = { sandbox: aSandbox(), checkpoint: undefined, events: [], operations: [], executions: [], findings: [] }

function aSandbox(given: Partial<SandboxRow> = {}): SandboxRow {
  const at = new Date('2026-03-01T12:00:00Z')
  const rest = { suspended_at: null, gone_reason: null, operation_id: null, waiting: 0, open_executions: 0 }
  return { id: 'sbx_1', state: 'running', state_changed_at: at, ...rest, ...given } as SandboxRow
}

function anOperation(given: Partial<OperationRow> = {}): OperationRow {
  const at = new Date(AT)
  const rest = { cause: null, options: {}, attempt: 1, failures: 0, last_error: null, created_at: at, started_at: at }
  return { id: 'op_1', kind: 'pause', ...rest, ...given } as OperationRow
}

/** What is told when this is all that has happened. */
function of(event: Partial<EventRow>, known: Partial<Parameters<typeof tellWhy>[0]> = {}) {
  const rest = {
    at: new Date(AT),
    from_state: null,
    to_state: null,
    operation_id: null,
    execution_id: null,
    detail: {},
  }
  return tellWhy({ ...NOTHING, events: [{ ...rest, ...event } as EventRow], ...known })
}

/** Whole sentences, and nothing in them that only a program would say. Ids are what they are. */
function expectWords({ answer, story }: ReturnType<typeof tellWhy>): void {
  for (const text of [answer, ...story.map((line) => line.text)]) {
    expect(text).toMatch(/^(sbx_|[A-Z]).*[^.\s]\.$/)
    expect(text.replaceAll(/\b(sbx|op|ckpt|exe)_[0-9a-z]+/g, 'id')).not.toMatch(
      /undefined|null|NaN|object|Invalid|[_{}[\]]|\s\s/,
    )
  }
}

/** Ids are new each time; what counts is which of them are the same. */
function named(text = ''): string {
  const seen = new Map<string, string>()
  return text.replaceAll(/\b(sbx|op|ckpt|exe)_[0-9a-f]+/g, (id, kind) => {
    const name = seen.get(id) ?? `${kind}_${seen.size + 1}`
    seen.set(id, name)
    return name
  })
}
