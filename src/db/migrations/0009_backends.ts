import { type Kysely, sql } from 'kysely'
import { lockTables } from '../lock-tables.ts'

/**
 * What is done for one backend is found by that backend, and not among all there is: its sandboxes beside its lists, its operations
 * that nobody works on, its young checkpoints. A backend with ten sandboxes had read past the million of another, page by page.
 *
 * No index more than before, and none that is written more often: each of these was there, without the backend or behind it.
 */
export async function up(db: Kysely<unknown>): Promise<void> {
  for (const statement of [lockTables('operations', 'sandboxes', 'checkpoints'), SANDBOXES, CHECKPOINTS])
    await sql.raw(statement).execute(db)
}

const SANDBOXES = `
  drop index sandman.sandboxes_backend;
  create index sandboxes_backend on sandman.sandboxes (fleet, backend, state, id) where state <> 'gone';
  drop index sandman.sandboxes_at_work_since;
  create index sandboxes_at_work_since on sandman.sandboxes (fleet, backend, state_changed_at) where ring_at is not null;
`

/**
 * Whose sweeper looks at it again. Not \`backend\`: statements of the release before, which go on running, join this table with
 * sandboxes and mean the column there. Of those that are not looked at again any more, nobody asks. Who does not write it, as that
 * release, leaves it to the trigger.
 */
const CHECKPOINTS = `
  alter table sandman.checkpoints add column verify_by text;
  update sandman.checkpoints set verify_by = sandboxes.backend
  from sandman.sandboxes
  where sandboxes.id = checkpoints.sandbox_id and checkpoints.status = 'ready' and verify_at is not null;

  create or replace function sandman.know_fleet() returns trigger language plpgsql as $$
  begin
    if new.fleet is null then
      -- What is imported is young no more.
      new.verify_at := coalesce(new.verify_at, case when new.created_at > now() - interval '1 hour' then new.created_at end);
    end if;
    select fleet, backend into new.fleet, new.verify_by from sandman.sandboxes where id = new.sandbox_id;
    return new;
  end $$;
  drop trigger checkpoints_know_their_fleet on sandman.checkpoints;
  create trigger checkpoints_know_their_fleet before insert on sandman.checkpoints for each row
    when (new.fleet is null or new.verify_by is null) execute function sandman.know_fleet();

  drop index sandman.checkpoints_to_verify;
  create index checkpoints_to_verify on sandman.checkpoints (fleet, verify_by, verify_at, id)
    where status = 'ready' and verify_at is not null;
`
