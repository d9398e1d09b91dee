import { type Kysely, sql } from 'kysely'

/**
 * A provider's own time-to-live is renewed for as long as its sandbox is to run. The index is of what ends, soonest first; a claim
 * is good for a while, so that no two workers renew the same, and one that cannot be renewed is in nobody's way.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  await sql
    .raw(`
      alter table sandman.sandboxes add column renew_after timestamptz;
      create index sandboxes_lease on sandman.sandboxes (fleet, backend, expires_at)
        where state = 'running' and expires_at is not null;`)
    .execute(db)
}
