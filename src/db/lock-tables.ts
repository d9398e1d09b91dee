import { SCHEMA } from './schema.ts'

/** For how long a lock is waited for while others are held, between two tries, and how often it is tried: five minutes in all. */
const LOCK_MS = 200
const PAUSE_MS = 300
const TRIES = 600

/**
 * For a migration: these tables for itself, all of them or none. A worker that holds one of them and asks for another waits for us
 * while we wait for it. Such a knot is undone here, long before Postgres looks for it (deadlock_timeout, a second) and ends
 * either of us: who does not get all of them soon lets go of all of them, and tries again a little later.
 *
 * For the same reason none of them is locked weakly first and made stronger later: a statement that reads a table before it writes
 * to it may read it under a weaker lock, and then waits for the end of this transaction, which would wait for it. And because an
 * upgrade is one transaction, whoever is first in it asks for what those after it need.
 */
export function lockTables(...tables: string[]): string {
  return `
  do $$
  declare
    usual constant text := current_setting('lock_timeout');
  begin
    for try in 1..${TRIES} loop
      begin
        perform set_config('lock_timeout', '${LOCK_MS}ms', true);
        ${tables.map((table) => `lock table ${SCHEMA}.${table} in access exclusive mode;`).join('\n        ')}
        perform set_config('lock_timeout', usual, true);
        return;
      exception when lock_not_available then
        -- The locks went with what was done since the beginning of this block.
        perform pg_sleep(${PAUSE_MS / 1_000});
      end;
    end loop;
    raise lock_not_available using message =
      'the tables ${tables.join(', ')} were in use by others each of ${TRIES} times; a long transaction may hold them, see pg_stat_activity';
  end $$;`
}
