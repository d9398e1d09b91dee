import { type Kysely, sql } from 'kysely'

/**
 * Sandboxes, what was asked of them, what they can be resumed from, what ran in them, and their history. Everything that
 * must always be true is a constraint here, so that no code, old or new, can store anything else.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of [
    IDS,
    REFUSE,
    SANDBOXES,
    CHECKPOINTS,
    OPERATIONS,
    LINE,
    IDEMPOTENCY_KEYS,
    EXECUTIONS,
    EVENTS,
    PRUNING,
    KNOTS,
  ]) {
    await sql.raw(statement).execute(db)
  }
}

/** Sorts by creation: milliseconds, then a counter that decides within one; the rest only makes it hard to guess. */
const IDS = `
  create sequence sandman.ids as bigint minvalue 0 maxvalue ${0xffff_ffff} cycle;

  create function sandman.make_id(prefix text, at timestamptz) returns text language sql volatile as $$
    select prefix || '_'
      || lpad(to_hex(floor(extract(epoch from at) * 1000)::bigint), 12, '0')
      || lpad(to_hex(nextval('sandman.ids')), 8, '0')
      || substr(replace(gen_random_uuid()::text, '-', ''), 1, 6)
  $$;
`

/** Called only when a trigger's condition has found something forbidden, so the permitted costs nothing. */
const REFUSE = `
  create function sandman.refuse() returns trigger language plpgsql as $$
  begin
    raise exception '%', tg_argv[0] using errcode = 'restrict_violation', constraint = tg_name, table = tg_table_name;
  end $$;
`

const SANDBOXES = `
  create table sandman.sandboxes (
    id                text primary key,
    fleet             text not null,
    backend           text not null,
    can_pause         boolean not null,
    can_snapshot      boolean not null,
    spec              jsonb not null default '{}',
    metadata          jsonb not null default '{}',
    agent_thread_id   text,

    state             text not null,
    state_changed_at  timestamptz not null,
    gone_reason       text,
    gone_at           timestamptz,
    provider_ref      text,
    incarnation       text,
    preview_url       text,
    checkpoint_id     text,
    checkpoint_status text generated always as (case when checkpoint_id is not null then 'ready' end) stored,

    fence             integer not null default 0,
    operation_id      text,
    operation_status  text generated always as (case when operation_id is not null then 'active' end) stored,
    waiting           integer not null default 0,
    tail_id           text,
    tail_fingerprint  text,
    ring_at           timestamptz,

    idle_ttl_ms       bigint,
    hard_ttl_ms       bigint,
    retention_ms      bigint,
    created_at        timestamptz not null,
    last_active_at    timestamptz not null,
    expires_at        timestamptz,

    constraint sandboxes_state_known check (state in
      ('provisioning', 'running', 'pausing', 'suspended', 'resuming', 'snapshotting', 'killing', 'gone')),
    constraint sandboxes_gone_reason_known check (gone_reason in
      ('killed', 'destroyed', 'expired', 'pause_unsupported', 'checkpoint_missing', 'checkpoint_corrupt',
       'instance_lost', 'spawn_failed', 'replaced')),
    constraint sandboxes_gone_has_reason_and_time check (
      (state = 'gone') = (gone_reason is not null) and (state = 'gone') = (gone_at is not null)),
    -- What is being destroyed may yet survive, and is then as suspended as before.
    constraint sandboxes_suspended_has_checkpoint check (
      case when state in ('suspended', 'resuming') then checkpoint_id is not null
           else state = 'killing' or checkpoint_id is null end),
    constraint sandboxes_in_flight_has_operation check (
      (state not in ('running', 'suspended', 'gone')) = (operation_id is not null)),
    constraint sandboxes_line_is_behind_an_operation check (
      waiting >= 0 and (operation_id is not null or waiting = 0)),
    constraint sandboxes_line_has_an_end check (
      (operation_id is not null) = (tail_id is not null) and (tail_id is not null) = (tail_fingerprint is not null)),
    constraint sandboxes_operation_is_rung_again check ((operation_id is not null) = (ring_at is not null)),
    constraint sandboxes_at_work unique (id, operation_id),
    constraint sandboxes_ttl_positive check (idle_ttl_ms > 0 and hard_ttl_ms > 0 and retention_ms > 0)
  );
  create index sandboxes_fleet on sandman.sandboxes (fleet, id);
  create unique index sandboxes_operation on sandman.sandboxes (operation_id) where operation_id is not null;
  create index sandboxes_checkpoint on sandman.sandboxes (checkpoint_id) where checkpoint_id is not null;
  create index sandboxes_to_ring on sandman.sandboxes (fleet, ring_at) where ring_at is not null;

  create trigger sandboxes_gone_is_final before update on sandman.sandboxes for each row
    when (old.state = 'gone' and (new.state not in ('gone', 'provisioning')
      or new.state = 'gone' and (new.gone_reason, new.gone_at) is distinct from (old.gone_reason, old.gone_at)))
    execute function sandman.refuse('a sandbox that is gone stays gone');
  create trigger sandboxes_fence_only_grows before update on sandman.sandboxes for each row
    when (new.fence < old.fence)
    execute function sandman.refuse('the fence of a sandbox only grows');
  create trigger sandboxes_identity_stays before update on sandman.sandboxes for each row
    when ((new.id, new.fleet, new.backend, new.created_at) is distinct from (old.id, old.fleet, old.backend, old.created_at))
    execute function sandman.refuse('who a sandbox is never changes');
`

const CHECKPOINTS = `
  create table sandman.checkpoints (
    id           text primary key,
    sandbox_id   text not null references sandman.sandboxes,
    kind         text not null,
    status       text not null,
    provider_ref text not null,
    name         text,
    size_bytes   bigint,
    created_at   timestamptz not null,
    verified_at  timestamptz,
    constraint checkpoints_kind_known check (kind in ('pause', 'snapshot')),
    constraint checkpoints_status_known check (status in ('ready', 'missing', 'deleted')),
    constraint checkpoints_ready_was_seen check (status <> 'ready' or verified_at is not null),
    constraint checkpoints_of_a_sandbox unique (id, sandbox_id, status),
    constraint checkpoints_owner unique (id, sandbox_id)
  );
  create index checkpoints_sandbox on sandman.checkpoints (sandbox_id, id);
  create trigger checkpoints_identity_stays before update on sandman.checkpoints for each row
    when ((new.id, new.sandbox_id, new.provider_ref, new.created_at)
      is distinct from (old.id, old.sandbox_id, old.provider_ref, old.created_at))
    execute function sandman.refuse('what a checkpoint is never changes');
  create trigger checkpoints_do_not_come_back before update on sandman.checkpoints for each row
    when (old.status <> 'ready' and new.status = 'ready' or old.status = 'deleted' and new.status <> 'deleted')
    execute function sandman.refuse('a checkpoint that is lost does not come back');
`

const OPERATIONS = `
  create table sandman.operations (
    id            text primary key,
    sandbox_id    text not null references sandman.sandboxes,
    kind          text not null,
    options       jsonb not null default '{}',
    fingerprint   text not null generated always as (md5(kind || ' ' || options::text)) stored,
    place         bigint not null generated always as identity,
    judgement     jsonb,
    status        text not null,
    at_work_on    text generated always as (case when status = 'active' then sandbox_id end) stored,
    outcome       text,
    error         jsonb,
    checkpoint_id text,
    attempt       integer not null default 0,
    fence         integer,
    taken_at      timestamptz,
    taken_by      text,
    created_at    timestamptz not null,
    started_at    timestamptz,
    settled_at    timestamptz,
    constraint operations_kind_known check (kind in ('spawn', 'pause', 'resume', 'snapshot', 'kill', 'destroy')),
    constraint operations_status_known check (status in ('waiting', 'active', 'succeeded', 'failed', 'refused')),
    constraint operations_outcome_known check (outcome in ('done', 'already_done', 'respawned')),
    constraint operations_success_has_outcome check ((status = 'succeeded') = (outcome is not null)),
    constraint operations_failure_has_error check ((status in ('failed', 'refused')) = (error is not null)),
    constraint operations_error_is_told check (
      error is null or (error ? 'error_type' and error ? 'message' and error ? 'retryable')),
    constraint operations_end_has_time check ((status in ('succeeded', 'failed', 'refused')) = (settled_at is not null)),
    constraint operations_active_has_started check (status <> 'active' or started_at is not null),
    constraint operations_waiting_knows_what_for check (
      status <> 'waiting' or (judgement is not null and judgement ?& array['running', 'suspended', 'gone'])),
    constraint operations_attempt_has_fence check ((attempt > 0) = (fence is not null)),
    constraint operations_of_a_sandbox unique (id, sandbox_id, status)
  );
  create unique index operations_one_active on sandman.operations (sandbox_id) where status = 'active';
  create unique index operations_line on sandman.operations (sandbox_id, place) where status = 'waiting';
  create index operations_sandbox on sandman.operations (sandbox_id, id);

  create trigger operations_end_is_final before update on sandman.operations for each row
    when (old.status in ('succeeded', 'failed', 'refused'))
    execute function sandman.refuse('an operation that has ended never changes again');
  create trigger operations_request_stays before update on sandman.operations for each row
    when ((new.id, new.sandbox_id, new.kind, new.options, new.created_at)
      is distinct from (old.id, old.sandbox_id, old.kind, old.options, old.created_at))
    execute function sandman.refuse('what was asked never changes');
  create trigger operations_fence_only_grows before update on sandman.operations for each row
    when (new.fence < old.fence or new.attempt < old.attempt)
    execute function sandman.refuse('the fence of an operation only grows');
`

/**
 * The line of a sandbox, when it has one: as many wait as the sandbox's row says, behind an operation that is at work, nobody
 * directly behind an equal, and the last is who the row says is last. Looked at only when the line changes.
 */
const LINE = `
  create function sandman.check_line() returns trigger language plpgsql as $$
  declare
    changed text := coalesce(to_jsonb(new), to_jsonb(old)) ->> case tg_table_name when 'sandboxes' then 'id' else 'sandbox_id' end;
    problem text;
  begin
    with line as (
      select id, status, fingerprint, place, lag(fingerprint) over (order by place) as ahead
      from sandman.operations where sandbox_id = changed and status in ('waiting', 'active')
    )
    select case
      when waiting <> (select count(*) from line where status = 'waiting')
        then format('%s says that %s wait for it, and %s do', changed, waiting, (select count(*) from line where status = 'waiting'))
      when exists (select from line where ahead = fingerprint)
        then format('two equal requests stand behind each other in the line of %s', changed)
      when (tail_id, tail_fingerprint) is distinct from (select (id, fingerprint) from line order by place desc limit 1)
        then format('the last in the line of %s is not %s', changed, tail_id)
    end into problem
    from sandman.sandboxes where id = changed and (waiting > 0 or exists (select from line where status = 'waiting'));
    if problem is not null then
      raise exception '%', problem using errcode = 'integrity_constraint_violation', constraint = 'line_is_in_order';
    end if;
    return null;
  end $$;

  create trigger operations_join_the_line after insert on sandman.operations for each row
    when (new.status = 'waiting') execute function sandman.check_line();
  create trigger operations_leave_the_line after update of status on sandman.operations for each row
    when (old.status = 'waiting' or new.status = 'waiting') execute function sandman.check_line();
  create trigger operations_are_lost_from_the_line after delete on sandman.operations for each row
    when (old.status = 'waiting') execute function sandman.check_line();
  create trigger sandboxes_count_their_line after update of waiting, tail_id, tail_fingerprint on sandman.sandboxes for each row
    when (old.waiting > 0 or new.waiting > 0) execute function sandman.check_line();
`

/** Several keys may name one operation: a request that joined another has a key of its own. */
const IDEMPOTENCY_KEYS = `
  create table sandman.idempotency_keys (
    fleet        text not null,
    key          text not null,
    operation_id text not null references sandman.operations,
    created_at   timestamptz not null,
    primary key (fleet, key)
  );
  create index idempotency_keys_operation on sandman.idempotency_keys (operation_id);
  create trigger idempotency_keys_stay before update on sandman.idempotency_keys for each row
    execute function sandman.refuse('an idempotency key names one operation');
  create trigger idempotency_keys_are_not_truncated before truncate on sandman.idempotency_keys for each statement
    execute function sandman.refuse('what was asked is only pruned');
`

const EXECUTIONS = `
  create table sandman.executions (
    id               text primary key,
    sandbox_id       text not null references sandman.sandboxes,
    incarnation      text,
    command          jsonb,
    status           text not null,
    reason           text,
    exit_code        integer,
    message          text,
    breaks           integer not null default 0,
    output_bytes     bigint not null default 0,
    created_at       timestamptz not null,
    started_at       timestamptz,
    ended_at         timestamptz,
    hard_deadline_at timestamptz,
    constraint executions_status_known check (status in ('queued', 'running', 'succeeded', 'failed', 'cancelled')),
    constraint executions_reason_known check (reason in
      ('completed', 'error', 'oom_killed', 'signal', 'agent_restarted', 'instance_lost', 'stream_lost',
       'deadline_exceeded', 'cancelled')),
    constraint executions_end_has_reason_and_time check (
      (status in ('succeeded', 'failed', 'cancelled')) = (reason is not null)
      and (reason is not null) = (ended_at is not null)),
    constraint executions_running_has_started check (status <> 'running' or started_at is not null),
    constraint executions_success_is_exit_0 check (status <> 'succeeded' or exit_code = 0)
  );
  create index executions_sandbox on sandman.executions (sandbox_id, id);
  create trigger executions_end_is_final before update on sandman.executions for each row
    when (old.status in ('succeeded', 'failed', 'cancelled'))
    execute function sandman.refuse('an execution that has ended never changes again');
`

const EVENTS = `
  create table sandman.events (
    id           bigint primary key generated always as identity,
    sandbox_id   text not null references sandman.sandboxes,
    at           timestamptz not null,
    type         text not null,
    from_state   text,
    to_state     text,
    operation_id text references sandman.operations,
    execution_id text references sandman.executions,
    fence        integer,
    detail       jsonb not null default '{}',
    constraint events_state_known check (
      (from_state is null or from_state in
        ('provisioning', 'running', 'pausing', 'suspended', 'resuming', 'snapshotting', 'killing', 'gone'))
      and (to_state is null or to_state in
        ('provisioning', 'running', 'pausing', 'suspended', 'resuming', 'snapshotting', 'killing', 'gone'))),
    constraint events_move_has_fence check (to_state is null or fence is not null)
  );
  create index events_sandbox on sandman.events (sandbox_id, id);
  create index events_at on sandman.events (at);
  create trigger events_are_not_rewritten before update on sandman.events for each row
    execute function sandman.refuse('history is not rewritten');
  create trigger events_are_not_truncated before truncate on sandman.events for each statement
    execute function sandman.refuse('history is only pruned');
`

/** What has happened and what was promised is deleted by pruning, which says so for its transaction, and by nothing else. */
const PRUNING = ['operations', 'idempotency_keys', 'executions', 'events']
  .map(
    (table) => `
  create trigger ${table}_are_only_pruned before delete on sandman.${table} for each row
    when (current_setting('sandman.pruning', true) is distinct from 'on')
    execute function sandman.refuse('${table} are only pruned');`,
  )
  .join('\n')

/** Checked at the end of each statement, so one that moves both ends of a knot may, and one that moves one may not. */
const KNOTS = `
  alter table sandman.sandboxes
    add constraint sandboxes_checkpoint_is_ready foreign key (checkpoint_id, id, checkpoint_status)
      references sandman.checkpoints (id, sandbox_id, status),
    add constraint sandboxes_operation_is_active foreign key (operation_id, id, operation_status)
      references sandman.operations (id, sandbox_id, status);
  alter table sandman.operations
    add constraint operations_active_is_at_work foreign key (at_work_on, id)
      references sandman.sandboxes (id, operation_id),
    add constraint operations_checkpoint_is_its_own foreign key (checkpoint_id, sandbox_id)
      references sandman.checkpoints (id, sandbox_id);
`
