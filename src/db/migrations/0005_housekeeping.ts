import { type Kysely, sql } from 'kysely'

/**
 * What the reaper and the sweeper need: when a sandbox is due, why an operation was asked for, what was seen at a provider, and
 * what was found there that should not be. Every index here is of what is due, and not of what exists.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of [LIMITS, SLEEP, CAUSES, CHECKPOINTS, DEADLINES, SWEEPS, FINDINGS, PRUNING])
    await sql.raw(statement).execute(db)
}

/**
 * A sandbox with a limit of its own has the time at which it is due; of one without, the time that its fleet's limit is counted
 * from is indexed. So a tick reads what is due, whichever limit that is, and a changed limit of the fleet holds at once.
 */
const LIMITS = `
  create function sandman.later(at timestamptz, ms bigint) returns timestamptz language sql immutable parallel safe
    return (at at time zone 'UTC' + make_interval(secs => ms::float8 / 1000)) at time zone 'UTC';

  alter table sandman.sandboxes
    add column idle_if_unsupported text,
    add column suspended_at        timestamptz,
    add column reap_after          timestamptz,
    add constraint sandboxes_idle_if_unsupported_known check (idle_if_unsupported = 'kill');
  update sandman.sandboxes set suspended_at = state_changed_at where state in ('suspended', 'resuming');
  alter table sandman.sandboxes
    add column idle_at      timestamptz generated always as (sandman.later(last_active_at, idle_ttl_ms)) stored,
    add column hard_at      timestamptz generated always as (sandman.later(created_at, hard_ttl_ms)) stored,
    add column retention_at timestamptz generated always as (sandman.later(suspended_at, retention_ms)) stored;

  create index sandboxes_idle on sandman.sandboxes (fleet, (can_pause or coalesce(idle_if_unsupported = 'kill', false)), idle_at)
    where state = 'running' and open_executions = 0 and idle_at is not null;
  create index sandboxes_idle_by_fleet on sandman.sandboxes
    (fleet, (can_pause or coalesce(idle_if_unsupported = 'kill', false)), last_active_at)
    where state = 'running' and open_executions = 0 and idle_ttl_ms is null;
  create index sandboxes_hard on sandman.sandboxes (fleet, hard_at)
    where state <> 'gone' and hard_at is not null;
  create index sandboxes_hard_by_fleet on sandman.sandboxes (fleet, created_at)
    where state <> 'gone' and hard_ttl_ms is null;
  create index sandboxes_retention on sandman.sandboxes (fleet, retention_at)
    where state = 'suspended' and open_executions = 0 and retention_at is not null;
  create index sandboxes_retention_by_fleet on sandman.sandboxes (fleet, suspended_at)
    where state = 'suspended' and open_executions = 0 and retention_ms is null;
  create index sandboxes_backend on sandman.sandboxes (fleet, backend) where state <> 'gone';
  create index sandboxes_origin on sandman.sandboxes ((spec ->> 'from')) where state <> 'gone' and spec ->> 'from' is not null;
  create index sandboxes_at_work_since on sandman.sandboxes (fleet, state_changed_at) where operation_id is not null;
`

/**
 * Since when it sleeps is kept by the database, because workers of the release before this one do not write it. What fails to wake
 * a sandbox, or to end it, has not woken it.
 */
const SLEEP = `
  create function sandman.remember_sleep() returns trigger language plpgsql as $$
  begin
    new.suspended_at := case new.state when 'suspended' then new.state_changed_at end;
    return new;
  end $$;
  create trigger sandboxes_fall_asleep before insert or update on sandman.sandboxes for each row
    when (new.state = 'suspended' and new.suspended_at is null
      or new.suspended_at is not null and new.state not in ('suspended', 'resuming', 'killing'))
    execute function sandman.remember_sleep();
`

/** Who asked for an operation, when no app did, and by what right. */
const CAUSES = `
  alter table sandman.operations add column cause jsonb;
`

/** A checkpoint that was seen once may have been seen too early: while it is young, it is looked at again. */
const CHECKPOINTS = `
  alter table sandman.checkpoints
    add column fleet     text,
    add column verify_at timestamptz;
  update sandman.checkpoints set fleet = sandboxes.fleet from sandman.sandboxes where sandboxes.id = checkpoints.sandbox_id;
  create function sandman.know_fleet() returns trigger language plpgsql as $$
  begin
    new.fleet := (select fleet from sandman.sandboxes where id = new.sandbox_id);
    -- What is imported is young no more.
    new.verify_at := coalesce(new.verify_at, case when new.created_at > now() - interval '1 hour' then new.created_at end);
    return new;
  end $$;
  create trigger checkpoints_know_their_fleet before insert on sandman.checkpoints for each row
    when (new.fleet is null) execute function sandman.know_fleet();
  create index checkpoints_to_verify on sandman.checkpoints (fleet, verify_at) where status = 'ready' and verify_at is not null;
  create index checkpoints_provider_ref on sandman.checkpoints (provider_ref);
`

const DEADLINES = `
  create index executions_deadline on sandman.executions (fleet, hard_deadline_at) where ring_at is not null;
`

/**
 * One row for every place that a backend's lists come from: how far the present round has come, and whether its provider can be
 * believed. A sighting is what the latest lists have shown; what an earlier round saw and this one does not has vanished.
 */
const SWEEPS = `
  create table sandman.sweeps (
    fleet           text not null,
    backend         text not null,
    place           text not null,
    round           integer not null default 0,
    phase           text not null default 'done',
    cursor          text,
    began_at        timestamptz,
    ended_at        timestamptz,
    instances       integer not null default 0,
    checkpoints     integer not null default 0,
    strangers       integer not null default 0,
    expected        integer not null default 0,
    missing         integer not null default 0,
    taken_by        text,
    taken_until     timestamptz,
    failing_since   timestamptz,
    failure         text,
    stopped_at      timestamptz,
    stopped_because text,
    believed_until  timestamptz,
    ticked_at       timestamptz,
    primary key (fleet, backend, place),
    constraint sweeps_phase_known check (phase in ('instances', 'checkpoints', 'running', 'suspended', 'done')),
    constraint sweeps_failure_is_told check ((failing_since is null) = (failure is null)),
    constraint sweeps_stop_is_told check ((stopped_at is null) = (stopped_because is null))
  );
  create table sandman.sightings (
    fleet      text not null,
    backend    text not null,
    place      text not null,
    kind       text not null,
    ref        text not null,
    sandbox_id text not null,
    round      integer not null,
    primary key (fleet, backend, place, kind, ref),
    constraint sightings_kind_known check (kind in ('instance', 'checkpoint'))
  );
`

/** What is not as it should be, with every look that showed it. Kept for a while after something was done about it. */
const FINDINGS = `
  create table sandman.findings (
    fleet         text not null,
    backend       text not null,
    kind          text not null,
    ref           text not null,
    place         text not null,
    sandbox_id    text not null,
    checkpoint    text,
    looks         jsonb not null,
    first_seen_at timestamptz not null,
    look_at       timestamptz,
    acting_at     timestamptz,
    acted_at      timestamptz,
    operation_id  text,
    primary key (fleet, backend, kind, ref),
    constraint findings_kind_known check (kind in
      ('instance_missing', 'checkpoint_missing', 'instance_unowned', 'checkpoint_unowned')),
    constraint findings_were_seen check (jsonb_typeof(looks) = 'array' and jsonb_array_length(looks) > 0),
    constraint findings_are_looked_at_or_acted_on check ((look_at is null) = (acted_at is not null)),
    constraint findings_two_looks_before_an_act check (acted_at is null or jsonb_array_length(looks) >= 2)
  );
  create index findings_due on sandman.findings (fleet, backend, look_at) where look_at is not null;
  create index findings_sandbox on sandman.findings (sandbox_id);
  create index findings_acted on sandman.findings (fleet, acted_at) where acted_at is not null;
`

/** How far pruning has come: it does not begin with what it has decided to keep. */
const PRUNING = `
  create table sandman.prunings (
    fleet    text not null,
    what     text not null,
    at       timestamptz not null,
    id       text not null,
    primary key (fleet, what),
    constraint prunings_what_known check (what in ('events', 'output'))
  );
  create index executions_ended on sandman.executions (fleet, ended_at, id) where ended_at is not null;
  create index idempotency_keys_age on sandman.idempotency_keys (fleet, created_at);
`
