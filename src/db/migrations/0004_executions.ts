import { type Kysely, sql } from 'kysely'

/**
 * Executions that run: what they were asked for, who follows them and since which byte, and their output. As with operations,
 * what must always be true is a constraint.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of [EXECUTIONS, SANDBOXES, OUTPUT, KEYS]) await sql.raw(statement).execute(db)
}

const EXECUTIONS = `
  alter table sandman.executions
    add column fleet               text,
    add column options             jsonb not null default '{}',
    add column wake_operation_id   text references sandman.operations,
    add column wakes               integer not null default 0,
    add column fence               integer not null default 0,
    add column taken_by            text,
    add column cursor              text,
    add column truncated           boolean not null default false,
    add column output_bytes_max    bigint not null default 67108864,
    add column last_output_at      timestamptz,
    add column silence_ms          bigint,
    add column cancel_requested_at timestamptz,
    add column stop_reason         text,
    add column stop_asked_at       timestamptz,
    add column ring_at             timestamptz;
  update sandman.executions set fleet = sandboxes.fleet,
    ring_at = case when status in ('queued', 'running') then now() end
  from sandman.sandboxes where sandboxes.id = executions.sandbox_id;
  alter table sandman.executions
    alter column fleet set not null,
    add constraint executions_open_is_rung_again check ((status in ('queued', 'running')) = (ring_at is not null)),
    add constraint executions_running_has_incarnation check (status <> 'running' or incarnation is not null),
    add constraint executions_stop_has_reason_and_time check ((stop_reason is null) = (stop_asked_at is null)),
    add constraint executions_stop_reason_known check (stop_reason in ('cancel', 'deadline', 'silence')),
    add constraint executions_bounds_positive check (output_bytes_max > 0 and silence_ms > 0 and breaks >= 0);

  create index executions_open on sandman.executions (sandbox_id) where ring_at is not null;
  create index executions_to_ring on sandman.executions (fleet, ring_at) where ring_at is not null;
  create index executions_fleet on sandman.executions (fleet, id);

  create trigger executions_request_stays before update on sandman.executions for each row
    when ((new.id, new.fleet, new.sandbox_id, new.command, new.options, new.created_at, new.output_bytes_max)
      is distinct from (old.id, old.fleet, old.sandbox_id, old.command, old.options, old.created_at, old.output_bytes_max))
    execute function sandman.refuse('what was asked never changes');
  create trigger executions_deadlines_stay before update on sandman.executions for each row
    when ((new.hard_deadline_at, new.silence_ms) is distinct from (old.hard_deadline_at, old.silence_ms))
    execute function sandman.refuse('a deadline is never moved');
  create trigger executions_stop_stays before update on sandman.executions for each row
    when (old.stop_reason is not null and (new.stop_reason, new.stop_asked_at) is distinct from (old.stop_reason, old.stop_asked_at))
    execute function sandman.refuse('why an agent was stopped never changes');
  create trigger executions_output_only_grows before update on sandman.executions for each row
    when (new.fence < old.fence or new.output_bytes < old.output_bytes)
    execute function sandman.refuse('the output and the fence of an execution only grow');
`

/** How many of its executions have not ended: what a request has to know of them, under the lock of the sandbox's row. */
const SANDBOXES = `
  alter table sandman.sandboxes add column open_executions integer not null default 0;
  update sandman.sandboxes set open_executions = counted.open
  from (select sandbox_id, count(*) as open from sandman.executions where ring_at is not null group by sandbox_id) as counted
  where counted.sandbox_id = sandboxes.id;
  alter table sandman.sandboxes add constraint sandboxes_executions_counted check (open_executions >= 0);
`

/** Piece behind piece: each begins where the one before it ends, because it is written with the count of the bytes so far. */
const OUTPUT = `
  create table sandman.output (
    execution_id text not null references sandman.executions,
    from_byte    bigint not null,
    bytes        bytea not null,
    at           timestamptz not null,
    primary key (execution_id, from_byte),
    constraint output_has_bytes check (length(bytes) > 0)
  );
  create trigger output_is_not_rewritten before update on sandman.output for each row
    execute function sandman.refuse('output is not rewritten');
  create trigger output_is_only_pruned before delete on sandman.output for each row
    when (current_setting('sandman.pruning', true) is distinct from 'on')
    execute function sandman.refuse('output is only pruned');
`

/** A key names an operation or an execution. */
const KEYS = `
  alter table sandman.idempotency_keys
    alter column operation_id drop not null,
    add column execution_id text references sandman.executions,
    add constraint idempotency_keys_name_one check (num_nonnulls(operation_id, execution_id) = 1);
  create index idempotency_keys_execution on sandman.idempotency_keys (execution_id) where execution_id is not null;
`
