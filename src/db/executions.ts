import { sql } from 'kysely'
import type { Clock } from '../clock.ts'
import { fromJson } from './json-row.ts'
import { dbNow, interval } from './now.ts'
import type { Db } from './pool.ts'
import { type ExecutionReason, type ExecutionRow, ID_PREFIXES } from './schema.ts'

/** How an execution ended. Recorded once: the first word stands. */
export type ExecutionEnd =
  | { status: 'succeeded'; reason: 'completed'; exitCode: 0; message?: string }
  | {
      status: 'failed'
      reason: Exclude<ExecutionReason, 'completed' | 'cancelled'>
      exitCode?: number
      message?: string
    }
  | { status: 'cancelled'; reason: 'cancelled'; exitCode?: number; message?: string }

type Asked = { fleet: string; sandboxId: string; command?: string[]; hardDeadlineMs?: number; clock: Clock }

/** Writes down that the agent is to run in a sandbox; undefined when the fleet has no such sandbox. */
export async function queueExecution(db: Db, asked: Asked): Promise<ExecutionRow | undefined> {
  const now = dbNow(asked.clock)
  const { rows } = await sql<{ execution: Record<string, unknown> }>`
    with execution as (
      insert into sandman.executions (id, sandbox_id, command, status, created_at, hard_deadline_at)
      select sandman.make_id(${ID_PREFIXES.execution}, ${now}), id, ${asked.command ? JSON.stringify(asked.command) : null}::jsonb,
        'queued', ${now}, ${now} + ${interval(asked.hardDeadlineMs ?? null)}
      from sandman.sandboxes where id = ${asked.sandboxId} and fleet = ${asked.fleet}
      returning *
    ), told as (
      insert into sandman.events (sandbox_id, at, type, execution_id)
      select sandbox_id, ${now}, 'execution_queued', id from execution
    )
    select to_jsonb(execution) as execution from execution`.execute(db)
  return rows[0] && fromJson<ExecutionRow>(rows[0].execution)
}

/** Undefined when it is not queued any more: started already, or ended. */
export async function startExecution(
  db: Db,
  { id, incarnation, clock }: { id: string; incarnation: string; clock: Clock },
): Promise<ExecutionRow | undefined> {
  const now = dbNow(clock)
  const { rows } = await sql<{ execution: Record<string, unknown> }>`
    with execution as (
      update sandman.executions set status = 'running', started_at = ${now}, incarnation = ${incarnation}
      where id = ${id} and status = 'queued'
      returning *
    ), told as (
      insert into sandman.events (sandbox_id, at, type, execution_id, detail)
      select sandbox_id, ${now}, 'execution_started', id, jsonb_build_object('incarnation', incarnation) from execution
    )
    select to_jsonb(execution) as execution from execution`.execute(db)
  return rows[0] && fromJson<ExecutionRow>(rows[0].execution)
}

/** Records the end, with its event, exactly once. Undefined when it has ended before, or never was. */
export async function endExecution(
  db: Db,
  { id, end, clock }: { id: string; end: ExecutionEnd; clock: Clock },
): Promise<ExecutionRow | undefined> {
  const now = dbNow(clock)
  const { rows } = await sql<{ execution: Record<string, unknown> }>`
    with execution as (
      update sandman.executions set status = ${end.status}, reason = ${end.reason}, exit_code = ${end.exitCode ?? null},
        message = ${end.message ?? null}, ended_at = ${now}
      where id = ${id} and status in ('queued', 'running')
      returning *
    ), told as (
      insert into sandman.events (sandbox_id, at, type, execution_id, detail)
      select sandbox_id, ${now}, 'execution_ended', id,
        jsonb_strip_nulls(jsonb_build_object('status', status, 'reason', reason, 'exit_code', exit_code, 'message', message))
      from execution
    )
    select to_jsonb(execution) as execution from execution`.execute(db)
  return rows[0] && fromJson<ExecutionRow>(rows[0].execution)
}
