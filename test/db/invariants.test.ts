import { randomUUID } from 'node:crypto'
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest'
import { endExecution } from '../../src/db/executions.ts'
import { findViolations, INVARIANTS } from '../../src/db/invariants.ts'
import { stoppedClock } from '../support/clock.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { type Ledger, ledgerOn } from '../support/ledger.ts'

/**
 * In a database without any constraint or trigger, everything can be stored that must never be. Each of these is one thing
 * that a bug could do, and the invariant that must notice.
 */
let database: TestDatabase
let ledger: Ledger

beforeAll(async () => {
  database = await createDatabase()
  await database.pool.query(`do $$
    declare each record;
    begin
      for each in select conrelid::regclass as owner, conname from pg_constraint
        where connamespace = 'sandman'::regnamespace and contype in ('c', 'f') loop
        execute format('alter table %s drop constraint %I', each.owner, each.conname);
      end loop;
      for each in select tgrelid::regclass as owner, tgname from pg_trigger
        where not tgisinternal and tgrelid in (select oid from pg_class where relnamespace = 'sandman'::regnamespace) loop
        execute format('drop trigger %I on %s', each.tgname, each.owner);
      end loop;
      drop index sandman.operations_one_active;
    end $$`)
})
beforeEach(() => {
  ledger = ledgerOn(database.db, { fleet: randomUUID(), clock: stoppedClock('2026-03-01T12:00:00Z') })
})
afterAll(() => database.drop())

const set = (change: string, id: string) =>
  database.pool.query(`update sandman.sandboxes set ${change} where id = $1`, [id])

const tell = (id: string, type: string, from: string, to: string, operationId: string | null = null, fence = 0) =>
  database.pool.query(
    `insert into sandman.events (sandbox_id, at, type, from_state, to_state, operation_id, fence)
     values ($1, now(), $2, $3, $4, $5, $6)`,
    [id, type, from, to, operationId, fence],
  )

type Bug = { invariant: keyof typeof INVARIANTS; bug: string; make(): Promise<unknown> }

const BUGS: Bug[] = [
  {
    invariant: 'suspended_has_checkpoint',
    bug: 'suspended, but with no checkpoint',
    make: async () => set('checkpoint_id = null', (await ledger.at('suspended')).id),
  },
  {
    invariant: 'suspended_has_checkpoint',
    bug: 'suspended with a checkpoint that is missing',
    async make() {
      const { checkpoint_id } = await ledger.at('suspended')
      await database.pool.query(`update sandman.checkpoints set status = 'missing' where id = $1`, [checkpoint_id])
    },
  },
  {
    invariant: 'suspended_has_checkpoint',
    bug: 'suspended with the checkpoint of somebody else',
    async make() {
      const { id } = await ledger.at('suspended')
      const { checkpoint_id } = await ledger.at('suspended')
      await set(`checkpoint_id = '${checkpoint_id}'`, id)
    },
  },
  {
    invariant: 'suspended_has_checkpoint',
    bug: 'resuming has let go of its checkpoint',
    async make() {
      const { id } = await ledger.at('suspended')
      await ledger.ask(id, 'resume')
      await set('checkpoint_id = null', id)
    },
  },
  {
    invariant: 'suspended_has_checkpoint',
    bug: 'running, and yet to be resumed from somewhere',
    async make() {
      const { id, checkpoint_id } = await ledger.at('suspended')
      await ledger.perform((await ledger.ask(id, 'resume')).operation.id)
      await database.pool.query(`update sandman.checkpoints set status = 'ready' where id = $1`, [checkpoint_id])
      await set(`checkpoint_id = '${checkpoint_id}'`, id)
    },
  },
  {
    invariant: 'suspended_has_checkpoint',
    bug: 'suspended with a checkpoint that nobody has seen',
    async make() {
      const { checkpoint_id } = await ledger.at('suspended')
      await database.pool.query(`update sandman.checkpoints set verified_at = null where id = $1`, [checkpoint_id])
    },
  },
  {
    invariant: 'gone_is_final',
    bug: 'running, with a reason to be gone',
    make: async () => set(`gone_reason = 'killed', gone_at = now()`, (await ledger.at('running')).id),
  },
  {
    invariant: 'gone_is_final',
    bug: 'back to life without a respawn',
    async make() {
      const { id } = await ledger.at('gone')
      await set(`state = 'running', gone_reason = null, gone_at = null`, id)
      await tell(id, 'adopted', 'gone', 'running')
    },
  },
  {
    invariant: 'gone_is_final',
    bug: 'respawned by a request that did not ask for it',
    async make() {
      const { id } = await ledger.at('gone')
      const { operation } = await ledger.ask(id, 'resume', { options: { if_lost: 'respawn' } })
      await database.pool.query(`update sandman.operations set options = '{}' where id = $1`, [operation.id])
    },
  },
  {
    invariant: 'gone_is_final',
    bug: 'gone without a reason',
    make: async () => set('gone_reason = null', (await ledger.at('gone')).id),
  },
  {
    invariant: 'one_active',
    bug: 'two active operations',
    async make() {
      const { sandbox } = await ledger.spawn()
      await database.pool.query(
        `insert into sandman.operations (id, sandbox_id, kind, status, created_at, started_at)
         values ($1, $2, 'kill', 'active', now(), now())`,
        [`op_${randomUUID()}`, sandbox.id],
      )
    },
  },
  {
    invariant: 'one_active',
    bug: 'an active operation on a sandbox that rests',
    async make() {
      const { id } = await ledger.at('running')
      await ledger.ask(id, 'pause')
      await set(`operation_id = null, state = 'running'`, id)
    },
  },
  {
    invariant: 'history_replays',
    bug: 'a state that history does not know of',
    make: async () => set(`state = 'running', checkpoint_id = null`, (await ledger.at('suspended')).id),
  },
  {
    invariant: 'history_replays',
    bug: 'a gap in history',
    async make() {
      const { id } = await ledger.at('suspended')
      await database.pool.query(`delete from sandman.events where sandbox_id = $1 and type = 'pause_began'`, [id])
    },
  },
  {
    invariant: 'history_replays',
    bug: 'a move that does not exist',
    async make() {
      const { id } = await ledger.at('suspended')
      await tell(id, 'paused', 'suspended', 'running', null, 9)
      await set(`state = 'running', checkpoint_id = null`, id)
    },
  },
  {
    invariant: 'history_replays',
    bug: 'a birth that does not exist',
    async make() {
      const { id } = await ledger.at('running')
      await database.pool.query(
        `update sandman.events set type = 'born' where sandbox_id = $1 and from_state is null`,
        [id],
      )
    },
  },
  {
    invariant: 'history_replays',
    bug: 'gone for another reason than history gives',
    make: async () => set(`gone_reason = 'expired'`, (await ledger.at('gone')).id),
  },
  {
    invariant: 'history_replays',
    bug: 'suspended with another checkpoint than history names',
    async make() {
      const { id } = await ledger.at('suspended')
      await database.pool.query(`update sandman.events set detail = detail - 'checkpoint_id' where sandbox_id = $1`, [
        id,
      ])
    },
  },
  {
    invariant: 'everything_ends',
    bug: 'a waiting operation that does not know what for',
    async make() {
      const { sandbox } = await ledger.spawn()
      const { operation } = await ledger.ask(sandbox.id, 'pause')
      await database.pool.query(`update sandman.operations set judgement = '{}' where id = $1`, [operation.id])
    },
  },
  {
    invariant: 'everything_ends',
    bug: 'a line whose end asks for something else',
    make: async () => set(`tail_fingerprint = 'x'`, (await ledger.spawn()).sandbox.id),
  },
  {
    invariant: 'everything_ends',
    bug: 'an operation that ended at no time',
    async make() {
      const { id } = await ledger.at('running')
      await database.pool.query(`update sandman.operations set settled_at = null where sandbox_id = $1`, [id])
    },
  },
  {
    invariant: 'everything_ends',
    bug: 'an active operation that nobody will ring for',
    make: async () => set('ring_at = null', (await ledger.spawn()).sandbox.id),
  },
  {
    invariant: 'everything_ends',
    bug: 'an operation that waits behind nothing',
    async make() {
      const { id } = await ledger.at('running')
      const { operation } = await ledger.ask(id, 'resume')
      await database.pool.query(
        `update sandman.operations set status = 'waiting', outcome = null, settled_at = null, judgement = '{}' where id = $1`,
        [operation.id],
      )
    },
  },
  {
    invariant: 'everything_ends',
    bug: 'a line that has lost count',
    async make() {
      const { sandbox } = await ledger.spawn()
      await ledger.ask(sandbox.id, 'pause')
      await set('waiting = 0', sandbox.id)
    },
  },
  {
    invariant: 'everything_ends',
    bug: 'a line with the wrong end',
    async make() {
      const { sandbox, operation } = await ledger.spawn()
      await ledger.ask(sandbox.id, 'pause')
      await set(`tail_id = '${operation.id}'`, sandbox.id)
    },
  },
  {
    invariant: 'one_performer',
    bug: 'an operation that was performed twice',
    async make() {
      const { id } = await ledger.at('suspended')
      const [, pause] = await ledger.operations(id)
      await tell(id, 'resume_began', 'suspended', 'resuming', null, 2)
      await tell(id, 'resume_failed', 'resuming', 'suspended', pause?.id, 2)
    },
  },
  {
    invariant: 'one_performer',
    bug: 'an operation with another result than history tells of',
    async make() {
      const { id } = await ledger.at('running')
      await database.pool.query(
        `update sandman.operations set status = 'failed', outcome = null, error = '{}' where sandbox_id = $1`,
        [id],
      )
    },
  },
  {
    invariant: 'one_performer',
    bug: 'an operation that ended without a trace',
    async make() {
      const { id } = await ledger.at('running')
      const { operation } = await ledger.ask(id, 'resume')
      await database.pool.query(`update sandman.operations set attempt = 1, fence = 1 where id = $1`, [operation.id])
    },
  },
  {
    invariant: 'one_performer',
    bug: 'an outcome that history does not tell of',
    async make() {
      const { id } = await ledger.at('running')
      await database.pool.query(`update sandman.operations set outcome = 'already_done' where sandbox_id = $1`, [id])
    },
  },
  {
    invariant: 'one_performer',
    bug: 'done without ever having begun',
    async make() {
      const { id } = await ledger.at('running')
      const { operation } = await ledger.ask(id, 'resume')
      await database.pool.query(`update sandman.operations set outcome = 'done' where id = $1`, [operation.id])
    },
  },
  {
    invariant: 'one_performer',
    bug: 'two equal operations behind each other',
    async make() {
      const { sandbox } = await ledger.spawn()
      await ledger.ask(sandbox.id, 'pause')
      await ledger.ask(sandbox.id, 'kill')
      await database.pool.query(
        `update sandman.operations set kind = 'kill' where sandbox_id = $1 and kind = 'pause'`,
        [sandbox.id],
      )
    },
  },
  {
    invariant: 'fences_grow',
    bug: 'two operations with one fence',
    async make() {
      const { id } = await ledger.at('suspended')
      await database.pool.query(`update sandman.operations set fence = 2 where sandbox_id = $1`, [id])
    },
  },
  {
    invariant: 'fences_grow',
    bug: 'history written without a fence',
    async make() {
      const { id } = await ledger.at('running')
      await database.pool.query(`update sandman.events set fence = null where sandbox_id = $1 and from_state is null`, [
        id,
      ])
    },
  },
  {
    invariant: 'fences_grow',
    bug: 'history written with a fence from the past',
    async make() {
      const { id } = await ledger.at('suspended')
      await tell(id, 'teardown_began', 'suspended', 'killing', null, 0)
      await set(`state = 'killing'`, id)
    },
  },
  {
    invariant: 'fences_grow',
    bug: 'settled by an attempt that was not the last',
    async make() {
      const { id } = await ledger.at('running')
      await set('fence = 7', id)
      await database.pool.query(`update sandman.operations set fence = 7 where sandbox_id = $1`, [id])
    },
  },
  {
    invariant: 'fences_grow',
    bug: 'an operation ahead of its sandbox',
    async make() {
      const { sandbox, operation } = await ledger.spawn()
      await ledger.begin(operation.id)
      await set('fence = 0', sandbox.id)
    },
  },
  {
    invariant: 'executions_end',
    bug: 'an execution that its sandbox does not count',
    async make() {
      const { id } = await ledger.at('running')
      await ledger.execute(id)
      await set('open_executions = 0', id)
    },
  },
  {
    invariant: 'executions_end',
    bug: 'an execution that runs in a sandbox which is suspended',
    async make() {
      const { id } = await ledger.at('suspended')
      const execution = await ledger.execute(id)
      await database.pool.query(`update sandman.executions set status = 'running' where id = $1`, [execution.id])
    },
  },
  {
    invariant: 'executions_end',
    bug: 'an end that history does not tell of',
    async make() {
      const { id } = await ledger.at('running')
      const execution = await ledger.execute(id)
      await database.pool.query(
        `update sandman.executions set status = 'failed', reason = 'error', ended_at = now() where id = $1`,
        [execution.id],
      )
      await set('open_executions = 0', id)
    },
  },
  {
    invariant: 'executions_end',
    bug: 'two ends of one execution',
    async make() {
      const { id } = await ledger.at('running')
      const execution = await ledger.execute(id)
      const end = { status: 'cancelled', reason: 'cancelled' } as const
      await endExecution(database.db, { id: execution.id, end, clock: ledger.clock })
      await database.pool.query(
        `insert into sandman.events (sandbox_id, at, type, execution_id, detail)
         select sandbox_id, at, type, execution_id, detail from sandman.events where type = 'execution_ended' and execution_id = $1`,
        [execution.id],
      )
    },
  },
  {
    invariant: 'output_is_whole',
    bug: 'a gap in the output',
    make: () => keepOutput([0, 10], [11, 10]),
  },
  {
    invariant: 'output_is_whole',
    bug: 'bytes that were kept twice',
    make: () => keepOutput([0, 10], [5, 16]),
  },
  {
    invariant: 'output_is_whole',
    bug: 'bytes that are counted and not there',
    make: () => keepOutput([0, 10]),
  },
]

/** Pieces of the output of an execution that counts 21 bytes. */
async function keepOutput(...pieces: [from: number, length: number][]): Promise<void> {
  const execution = await ledger.execute((await ledger.at('running')).id)
  await database.pool.query(`update sandman.executions set output_bytes = 21 where id = $1`, [execution.id])
  for (const [from, length] of pieces) {
    const values = [execution.id, from, Buffer.alloc(length, 'x')]
    await database.pool.query(`insert into sandman.output values ($1, $2, $3, now())`, values)
  }
}

test.each(BUGS)('$invariant notices $bug', async ({ invariant, make }) => {
  expect(await findViolations(database.db, { fleet: ledger.fleet })).toEqual([])
  await make()
  const violations = await findViolations(database.db, { fleet: ledger.fleet })
  expect(violations.map((violation) => violation.invariant)).toContain(invariant)
  for (const violation of violations) expect(violation.seen).not.toBe('')
  const [{ sandboxId } = { sandboxId: '' }] = violations
  expect((await findViolations(database.db, { sandboxId })).length).toBeGreaterThan(0)
})

test('every invariant has a bug that it notices', () => {
  expect(new Set(BUGS.map(({ invariant }) => invariant))).toEqual(new Set(Object.keys(INVARIANTS)))
})
