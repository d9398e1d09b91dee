import { describe, expect, test } from 'vitest'
import { printWhy } from '../../src/cli/why.ts'
import { endExecution, startExecution } from '../../src/db/executions.ts'
import { recordFailure } from '../../src/db/fail.ts'
import { recordAct, recordFirstLooks, recordLook } from '../../src/db/findings.ts'
import type { Cause } from '../../src/sandbox/causes.ts'
import { failure } from '../../src/sandbox/failures.ts'
import { done, named, useWhy, type WhyTest } from './why-setup.ts'

const MINUTE_MS = 60_000

describe('from the database', () => {
  let ledger: WhyTest['ledger']
  let clock: WhyTest['clock']
  let why: WhyTest['why']
  let perform: WhyTest['perform']
  useWhy((given) => {
    ;({ ledger, clock, why, perform } = given)
  })

  const awake = { state: 'running', providerRef: 'box-1', incarnation: 'life 1' } as const

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
      `"The snapshot is still to be done: no worker has begun it. That takes one that has the backend test and works on the queue snapshot."`,
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
})
