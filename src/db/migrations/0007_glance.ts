import { type Kysely, sql } from 'kysely'
import { lockTables } from '../lock-tables.ts'

/**
 * What people and programs look at: sandboxes found by what their app has written on them, a fleet counted at a glance, and what
 * has happened, counted as it did. Nothing here costs a state change more than it did before.
 *
 * Workers of the release before go on working while this runs. So whatever takes long is done first, while nobody has to wait for
 * it; then all locks are taken at once; and what is left is short.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of [TAGS, TALLIES, CHECKS, LOCKS, LATECOMERS, COUNTS]) await sql.raw(statement).execute(db)
}

/**
 * What a sandbox can be found by, one row each: its backend, and every plain value on the first level of its metadata, as text. A
 * table of its own and no index on sandboxes: none of it ever changes, and an index there would be written with every state.
 * What is longer than anybody searches for, or more than anybody reads, is left out; so every row fits into an index.
 *
 * Its key is made when the rows are there: to sort them once is much faster than to find the place of each.
 */
const TAGS = `
  create table sandman.tags (
    fleet      text not null,
    key        text not null,
    value      text not null,
    sandbox_id text not null
  );

  create function sandman.tags_of(backend text, metadata jsonb) returns table (key text, value text) language sql immutable as $$
    select 'backend', backend
    union all
    (select 'metadata.' || entry.key, entry.value #>> '{}' from jsonb_each(metadata) as entry
     where jsonb_typeof(entry.value) in ('string', 'number', 'boolean')
       and length(entry.key) <= 256 and length(entry.value #>> '{}') <= 256
     limit 64)
  $$;
  create function sandman.tag_sandboxes() returns trigger language plpgsql as $$
  begin
    insert into sandman.tags (fleet, key, value, sandbox_id)
    select made.fleet, tags.key, tags.value, made.id from made, sandman.tags_of(made.backend, made.metadata) as tags;
    return null;
  end $$;

  insert into sandman.tags (fleet, key, value, sandbox_id)
  select sandboxes.fleet, tags.key, tags.value, sandboxes.id
  from sandman.sandboxes, sandman.tags_of(sandboxes.backend, sandboxes.metadata) as tags;
  alter table sandman.tags add primary key (fleet, key, value, sandbox_id);
  analyze sandman.tags;
`

/** What has happened so far ('-infinity'), and in each five minutes of the last days. */
const TALLIES = `
  create table sandman.tallies (
    fleet  text not null,
    at     timestamptz not null,
    name   text not null,
    labels jsonb not null,
    value  double precision not null,
    primary key (fleet, at, name, labels)
  );
`

/** How far the look whether everything is as it must always be has come, and what it has found that is not. */
const CHECKS = `
  create table sandman.checks (
    fleet   text primary key,
    reached text not null
  );
  create table sandman.violations (
    fleet      text not null,
    sandbox_id text not null,
    invariant  text not null,
    seen       text not null,
    since      timestamptz not null,
    primary key (fleet, sandbox_id, invariant)
  );
`

/** Those that the rest needs, and those that the next migration does. */
const LOCKS = lockTables('operations', 'findings', 'sandboxes', 'checkpoints', 'executions')

/** Whoever was made since the tags were written gets theirs; from now on, everybody does at once. */
const LATECOMERS = `
  insert into sandman.tags (fleet, key, value, sandbox_id)
  select sandboxes.fleet, tags.key, tags.value, sandboxes.id
  from sandman.sandboxes, sandman.tags_of(sandboxes.backend, sandboxes.metadata) as tags
  where not exists (select from sandman.tags as known
    where known.fleet = sandboxes.fleet and known.key = 'backend' and known.sandbox_id = sandboxes.id);

  create trigger sandboxes_are_tagged after insert on sandman.sandboxes referencing new table as made
    for each statement execute function sandman.tag_sandboxes();
  create trigger sandboxes_metadata_stays before update of metadata on sandman.sandboxes for each row
    when (new.metadata is distinct from old.metadata)
    execute function sandman.refuse('what an app has written on a sandbox never changes');
`

/**
 * How many are in which state, on which backend and since when is read from the index alone. None of these columns changes
 * without the state. Of operations and findings, only the few are indexed that somebody has to look at.
 */
const COUNTS = `
  drop index sandman.sandboxes_state;
  create index sandboxes_state on sandman.sandboxes (fleet, state, id) include (backend, state_changed_at);
  create index operations_failed on sandman.operations (settled_at) where status = 'failed';
  create index findings_open on sandman.findings (fleet, kind, first_seen_at) where look_at is not null;
  drop index sandman.findings_acted;
  create index findings_acted on sandman.findings (fleet, acted_at) include (kind) where acted_at is not null;
`
