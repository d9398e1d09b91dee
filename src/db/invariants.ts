import { sql } from 'kysely'
import { ENTRIES, SETTLED_STATES, STATES, TRANSITIONS } from '../sandbox/states.ts'
import type { Db } from './pool.ts'

/**
 * What must be true of every sandbox at every moment, whoever wrote what and whoever died in between. Most of it is kept by
 * constraints as well; it is looked at again here, from the other side, because a constraint can be dropped.
 */
export const INVARIANTS = {
  suspended_has_checkpoint: 'suspended means a ready checkpoint of that sandbox, and resuming keeps it',
  gone_is_final: 'gone is final: nothing but a respawn that was asked for follows it',
  one_active: 'one active operation a sandbox, and only while the sandbox is in flight',
  history_replays: 'the events of a sandbox replay to its current state',
  everything_ends: 'every operation has ended, or is active or waiting with something that will move it',
  one_performer: 'an operation is performed once and has one result',
  fences_grow: 'fences only grow, and no write carries an old one',
  executions_end: 'an execution runs only in a sandbox that is there, is counted, and has one end in history',
  output_is_whole: 'the output of an execution has no gap and nothing twice',
} as const

export type Violation = { invariant: keyof typeof INVARIANTS; sandboxId: string; seen: string }

const SETTLED = [...SETTLED_STATES]

type Scope = { fleet: string } | { sandboxId: string } | { sandboxIds: readonly string[] }

/** Every violation there is, in one fleet or of some sandboxes. An empty list is the only good one. */
export async function findViolations(db: Db, scope: Scope): Promise<Violation[]> {
  // One by its own condition: of a list Postgres cannot know how long it is, and plans the whole statement anew each time.
  const inScope =
    'fleet' in scope
      ? sql`fleet = ${scope.fleet}`
      : 'sandboxId' in scope
        ? sql`id = ${scope.sandboxId}`
        : sql`id = any(${scope.sandboxIds}::text[])`
  const moves = [
    ...STATES.flatMap((from) => Object.entries(TRANSITIONS[from]).map(([to, type]) => ({ from, to, type }))),
    ...Object.entries(ENTRIES).map(([to, type]) => ({ from: null, to, type })),
  ]
  const { rows } = await sql<Violation>`
    /* find_violations */ with sandbox as (
      select * from sandman.sandboxes where ${inScope}
    ), operation as (
      select operations.* from sandman.operations join sandbox on sandbox.id = operations.sandbox_id
    ), execution as (
      select executions.* from sandman.executions join sandbox on sandbox.id = executions.sandbox_id
    ), told as (
      select events.*,
        lag(to_state) over story as state_before, lag(events.fence) over story as fence_before,
        row_number() over story = 1 as is_first, row_number() over (story rows between unbounded preceding and unbounded following)
          = count(*) over (partition by sandbox_id) as is_last
      from sandman.events join sandbox on sandbox.id = events.sandbox_id
      where to_state is not null
      window story as (partition by sandbox_id order by events.id)
    ), legal as (
      select * from jsonb_to_recordset(${JSON.stringify(moves)}::jsonb) as move ("from" text, "to" text, type text)
    ), finish as (
      select told.* from told where from_state not in ('running', 'suspended', 'gone')
    )

    select 'suspended_has_checkpoint' as invariant, sandbox.id as "sandboxId",
      format('%s with checkpoint %s, which is %s', state, coalesce(checkpoint_id, 'none'), coalesce(checkpoints.status, 'not its own')) as seen
    from sandbox left join sandman.checkpoints on checkpoints.id = checkpoint_id and checkpoints.sandbox_id = sandbox.id
    where (state in ('suspended', 'resuming') or checkpoint_id is not null)
        and (checkpoints.status is distinct from 'ready' or checkpoints.verified_at is null)
      or checkpoint_id is not null and state not in ('suspended', 'resuming', 'killing')

    union all
    select 'gone_is_final', told.sandbox_id, format('%s after it was gone, by %s', type, operation_id)
    from told left join operation on operation.id = told.operation_id
    where from_state = 'gone' and (type <> 'respawn_began' or operation.kind <> 'resume'
      or operation.options ->> 'if_lost' is distinct from 'respawn')
    union all
    select 'gone_is_final', id, format('%s with reason %s at %s', state, gone_reason, gone_at)
    from sandbox where (state = 'gone') <> (gone_reason is not null) or (state = 'gone') <> (gone_at is not null)

    union all
    select 'one_active', sandbox.id, format('%s with operation %s, active: %s', state, sandbox.operation_id, active)
    from sandbox, lateral (select array_agg(operation.id) as active from operation
      where operation.sandbox_id = sandbox.id and status = 'active') as at_work
    where active is distinct from case when sandbox.operation_id is not null then array[sandbox.operation_id] end
      or (state not in ('running', 'suspended', 'gone')) <> (sandbox.operation_id is not null)

    union all
    select 'history_replays', told.sandbox_id, format('event %s: %s from %s to %s, after %s', told.id, told.type,
      from_state, to_state, state_before)
    from told left join legal on legal."from" is not distinct from from_state and legal."to" = to_state and legal.type = told.type
    where (not is_first and from_state is distinct from state_before) or legal.type is null
    union all
    select 'history_replays', sandbox.id, format('%s with reason %s and checkpoint %s, but history ends in %s: %s', state, gone_reason,
      sandbox.checkpoint_id, coalesce(told.to_state, 'nothing'), told.detail)
    from sandbox left join told on told.sandbox_id = sandbox.id and is_last
    where told.to_state is distinct from state
      or state = 'gone' and told.detail ->> 'reason' is distinct from gone_reason
      or state = 'suspended' and told.detail ->> 'checkpoint_id' is distinct from sandbox.checkpoint_id

    union all
    select 'everything_ends', operation.sandbox_id, format('%s is %s, and nothing will move it', operation.id, status)
    from operation join sandbox on sandbox.id = operation.sandbox_id
    where status = 'active' and (sandbox.operation_id is distinct from operation.id or ring_at is null)
      or status = 'waiting' and (sandbox.operation_id is null or not coalesce(judgement ?& ${SETTLED}::text[], false))
      or status not in ('active', 'waiting') and settled_at is null
    union all
    select 'everything_ends', sandbox.id, format('%s wait by its own count, and %s in its line up to %s of %s', waiting, standing,
      last_id, tail_id)
    from sandbox, lateral (select count(*) filter (where status = 'waiting') as standing,
        (array_agg(operation.id order by place desc) filter (where status in ('waiting', 'active')))[1] as last_id,
        (array_agg(operation.fingerprint order by place desc) filter (where status in ('waiting', 'active')))[1] as last_fingerprint
      from operation where operation.sandbox_id = sandbox.id) as line
    where waiting <> standing or tail_id is distinct from last_id or tail_fingerprint is distinct from last_fingerprint

    union all
    select 'one_performer', operation.sandbox_id, format('%s (%s, %s, %s attempts) has %s ends in history: %s', operation.id, kind,
      status, attempt, ends, results)
    from operation, lateral (select count(*) as ends, array_agg(concat_ws(' ', finish.detail ->> 'status', finish.detail ->> 'outcome')) as results from finish
      where finish.operation_id = operation.id) as performance
    where ends > 1 or (ends = 1 and results[1] is distinct from concat_ws(' ', status, outcome))
      or (ends = 0 and (attempt > 0 or outcome <> 'already_done' or status = 'failed') and settled_at is not null
        and exists (select from told where told.sandbox_id = operation.sandbox_id and is_first and from_state is null))
    union all
    select 'one_performer', sandbox_id, format('%s stands directly behind its equal', id)
    from (select *, lag(fingerprint) over (partition by sandbox_id order by place) as ahead from operation
      where status in ('waiting', 'active')) as standing
    where ahead = fingerprint

    union all
    select 'fences_grow', sandbox_id, format('event %s carries fence %s after %s', id, fence, fence_before)
    from told where fence is null or fence < fence_before
    union all
    select 'fences_grow', finish.sandbox_id, format('event %s ended %s with fence %s, but its last attempt had %s', finish.id,
      operation.id, finish.fence, operation.fence)
    from finish join operation on operation.id = finish.operation_id
    where finish.fence is distinct from operation.fence
    union all
    select 'fences_grow', sandbox.id, format('%s has fence %s, and its sandbox %s', operation.id, operation.fence, sandbox.fence)
    from sandbox join operation on operation.sandbox_id = sandbox.id
    where operation.fence > sandbox.fence
    union all
    select 'fences_grow', sandbox_id, format('%s operations have fence %s', count(*), fence)
    from operation where fence is not null group by sandbox_id, fence having count(*) > 1

    union all
    select 'executions_end', sandbox.id, format('%s of its executions have not ended, and it counts %s', open, open_executions)
    from sandbox, lateral (select count(*) as open from execution where execution.sandbox_id = sandbox.id
      and execution.status in ('queued', 'running')) as counted
    where open <> open_executions
    union all
    select 'executions_end', sandbox.id, format('%s runs, and its sandbox is %s', execution.id, state)
    from execution join sandbox on sandbox.id = execution.sandbox_id
    where execution.status = 'running' and state in ('provisioning', 'resuming', 'suspended', 'gone')
    union all
    select 'executions_end', execution.sandbox_id, format('%s is %s, and ends in history as %s', execution.id, execution.status, ends)
    from execution, lateral (select array_agg(concat_ws(' ', events.detail ->> 'status', events.detail ->> 'reason')) as ends
      from sandman.events where events.sandbox_id = execution.sandbox_id and events.execution_id = execution.id
        and events.type = 'execution_ended') as told_of
    where ends is distinct from case when ended_at is not null then array[concat_ws(' ', status, reason)] end
      and (ends is not null or exists (select from sandman.events where events.sandbox_id = execution.sandbox_id
        and events.execution_id = execution.id and events.type = 'execution_queued'))

    union all
    select 'output_is_whole', execution.sandbox_id, format('%s has a piece that begins with byte %s and not %s', execution.id, from_byte, expected)
    from execution, lateral (select from_byte, lag(from_byte + length(bytes)) over (order by from_byte) as expected
      from sandman.output where output.execution_id = execution.id) as piece
    where from_byte <> expected
    union all
    select 'output_is_whole', execution.sandbox_id, format('%s counts %s bytes, and its last piece ends with %s', execution.id, output_bytes, reached)
    from execution, lateral (select max(from_byte + length(bytes)) as reached
      from sandman.output where output.execution_id = execution.id) as pieces
    where reached is not null and reached <> output_bytes`.execute(db)
  return rows
}
