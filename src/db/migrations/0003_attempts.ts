import { type Kysely, sql } from 'kysely'

/**
 * What came of the attempts at an operation so far. An attempt that failed says so; one that said nothing was cut off. Both
 * may have changed something at the provider, and an operation that may have is not settled by a guess.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql
    .raw(`
  alter table sandman.operations
    add column failures   integer not null default 0,
    add column last_error jsonb,
    add column acted      boolean not null default false,
    add constraint operations_failures_were_attempts check (failures between 0 and attempt),
    add constraint operations_last_error_is_told check ((last_error is not null) = (failures > 0));

  create unique index sandboxes_provider_ref on sandman.sandboxes (backend, provider_ref)
    where provider_ref is not null and state <> 'gone';
  create index sandboxes_state on sandman.sandboxes (fleet, state, id);
`)
    .execute(db)
}
