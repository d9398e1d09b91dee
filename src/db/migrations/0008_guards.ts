import { type Kysely, sql } from 'kysely'
import { lockTables } from '../lock-tables.ts'

/**
 * The same rules for less. Postgres reads the condition of a trigger, and the body of an SQL function in a generated column, anew
 * in every statement that writes to their table, which was a fifth of what a state change cost. What is written in PL/pgSQL is
 * read once in each connection. So every table has one guard, in which its rules stand one after the other.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  const tables = Object.keys(RULES)
  const statements = [LATER, ...tables.map(makeGuard), lockTables(...tables), ...tables.map(putGuard), SLEEP, AT_WORK]
  for (const statement of statements) await sql.raw(statement).execute(db)
}

/** As it was; but for its language. */
const LATER = `
  create or replace function sandman.later(at timestamptz, ms bigint) returns timestamptz
  language plpgsql immutable parallel safe as $$
  begin
    return ((at at time zone 'UTC') + make_interval(secs => ms::float8 / 1000)) at time zone 'UTC';
  end $$;
`

type Rule = {
  /** What must not be. */
  when: string
  says: string
}

/** By table, and by the name that a violation is told under. */
const RULES: Record<string, Record<string, Rule>> = {
  sandboxes: {
    sandboxes_gone_is_final: {
      when: `old.state = 'gone' and (new.state not in ('gone', 'provisioning') or new.state = 'gone'
        and (new.gone_reason is distinct from old.gone_reason or new.gone_at is distinct from old.gone_at))`,
      says: 'a sandbox that is gone stays gone',
    },
    sandboxes_fence_only_grows: { when: 'new.fence < old.fence', says: 'the fence of a sandbox only grows' },
    sandboxes_identity_stays: {
      when: '(new.id, new.fleet, new.backend, new.created_at) is distinct from (old.id, old.fleet, old.backend, old.created_at)',
      says: 'who a sandbox is never changes',
    },
  },
  operations: {
    operations_end_is_final: {
      when: `old.status in ('succeeded', 'failed', 'refused')`,
      says: 'an operation that has ended never changes again',
    },
    operations_request_stays: {
      when: `(new.id, new.sandbox_id, new.kind, new.options, new.created_at)
        is distinct from (old.id, old.sandbox_id, old.kind, old.options, old.created_at)`,
      says: 'what was asked never changes',
    },
    operations_fence_only_grows: {
      when: 'new.fence < old.fence or new.attempt < old.attempt',
      says: 'the fence of an operation only grows',
    },
  },
  checkpoints: {
    checkpoints_identity_stays: {
      when: `(new.id, new.sandbox_id, new.provider_ref, new.created_at)
        is distinct from (old.id, old.sandbox_id, old.provider_ref, old.created_at)`,
      says: 'what a checkpoint is never changes',
    },
    checkpoints_do_not_come_back: {
      when: `old.status <> 'ready' and new.status = 'ready' or old.status = 'deleted' and new.status <> 'deleted'`,
      says: 'a checkpoint that is lost does not come back',
    },
  },
  executions: {
    executions_end_is_final: {
      when: `old.status in ('succeeded', 'failed', 'cancelled')`,
      says: 'an execution that has ended never changes again',
    },
    executions_request_stays: {
      when: `(new.id, new.fleet, new.sandbox_id, new.command, new.options, new.created_at, new.output_bytes_max)
        is distinct from (old.id, old.fleet, old.sandbox_id, old.command, old.options, old.created_at, old.output_bytes_max)`,
      says: 'what was asked never changes',
    },
    executions_deadlines_stay: {
      when: '(new.hard_deadline_at, new.silence_ms) is distinct from (old.hard_deadline_at, old.silence_ms)',
      says: 'a deadline is never moved',
    },
    executions_stop_stays: {
      when: `old.stop_reason is not null
        and (new.stop_reason, new.stop_asked_at) is distinct from (old.stop_reason, old.stop_asked_at)`,
      says: 'why an agent was stopped never changes',
    },
    executions_output_only_grows: {
      when: 'new.fence < old.fence or new.output_bytes < old.output_bytes',
      says: 'the output and the fence of an execution only grow',
    },
  },
}

function makeGuard(table: string): string {
  const rules = Object.entries(RULES[table] ?? {}).map(
    ([name, { when, says }]) => `
    if ${when} then
      raise exception '${says}' using errcode = 'restrict_violation', constraint = '${name}', table = tg_table_name;
    end if;`,
  )
  return `
  create function sandman.guard_${table}() returns trigger language plpgsql as $$
  begin${rules.join('')}${table === 'sandboxes' ? REMEMBER_SLEEP : ''}
    return new;
  end $$;`
}

function putGuard(table: string): string {
  const before = Object.keys(RULES[table] ?? {}).map((name) => `drop trigger ${name} on sandman.${table};`)
  return `
  ${before.join('\n  ')}
  create trigger ${table}_are_guarded before update on sandman.${table} for each row
    execute function sandman.guard_${table}();`
}

/** Since when it sleeps is known as long as it does, and while it is woken or ended. */
const REMEMBER_SLEEP = `
    if new.state = 'suspended' and new.suspended_at is null then
      new.suspended_at := new.state_changed_at;
    elsif new.suspended_at is not null and new.state not in ('suspended', 'resuming', 'killing') then
      new.suspended_at := null;
    end if;`

const SLEEP = `
  drop trigger sandboxes_fall_asleep on sandman.sandboxes;
  create trigger sandboxes_fall_asleep before insert on sandman.sandboxes for each row
    when (new.state = 'suspended' and new.suspended_at is null or new.suspended_at is not null and new.state <> 'suspended')
    execute function sandman.remember_sleep();
`

/**
 * The same rows by another name: what is at work is rung for again. The foreign key of an active operation asks for the sandbox with
 * this `operation_id`, so an index of those that have one would do for it, and to a Postgres that counted when nobody worked it is
 * the shortest there is. It then read all that was at work for every operation.
 */
const AT_WORK = `
  drop index sandman.sandboxes_at_work_since;
  create index sandboxes_at_work_since on sandman.sandboxes (fleet, state_changed_at) where ring_at is not null;
`
