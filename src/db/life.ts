import { listNewestEvents } from './events.ts'
import { listFindings } from './findings.ts'
import type { Db } from './pool.ts'
import { findSandbox } from './sandboxes.ts'
import type { CheckpointRow, EventRow, ExecutionRow, FindingRow, OperationRow, SandboxRow } from './schema.ts'

/** All that is kept of how a sandbox got where it is. */
export type Life = {
  sandbox: SandboxRow
  /** What it can be resumed from. */
  checkpoint: CheckpointRow | undefined
  events: readonly EventRow[]
  /** Those that the events tell of, and the one at work. */
  operations: readonly OperationRow[]
  executions: readonly ExecutionRow[]
  findings: readonly FindingRow[]
}

type Asked = { fleet: string; id: string; eventsMax: number; findingsMax: number }

/** Undefined when the fleet has no such sandbox. All is read as it was at one moment, or the end would not fit the beginning. */
export async function readLife(db: Db, { fleet, id, eventsMax, findingsMax }: Asked): Promise<Life | undefined> {
  const reading = db.transaction().setIsolationLevel('repeatable read').setAccessMode('read only')
  return reading.execute(async (transaction) => {
    const found = await findSandbox(transaction, { fleet, id })
    if (!found) return undefined
    const events = await listNewestEvents(transaction, id, eventsMax)
    const findings = await listFindings(transaction, { fleet, sandboxId: id, max: findingsMax })
    const operationIds = [found.sandbox.operation_id, ...events.map((event) => event.operation_id)]
    const executionIds = events.map((event) => event.execution_id)
    const operations = await transaction
      .selectFrom('operations')
      .selectAll()
      .where('id', 'in', [...new Set(operationIds)])
      .execute()
    const executions = await transaction
      .selectFrom('executions')
      .selectAll()
      .where('id', 'in', [...new Set([null, ...executionIds])]) // null, because a list must not be empty
      .execute()
    return { ...found, events, operations, executions, findings }
  })
}
