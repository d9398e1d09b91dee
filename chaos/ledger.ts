import pg from 'pg'
import { findViolations, type Violation } from '../src/db/invariants.ts'
import type { Db } from '../src/db/pool.ts'
import type { CheckpointRow, ExecutionRow, IdempotencyKeyRow, OperationRow, SandboxRow } from '../src/db/schema.ts'
import { FLEET } from './site.ts'

/** All that is written down. */
export type LedgerRows = {
  sandboxes: SandboxRow[]
  operations: (OperationRow & { backend: string })[]
  checkpoints: (CheckpointRow & { backend: string; isPromised: boolean })[]
  executions: (ExecutionRow & { output: string })[]
  keys: IdempotencyKeyRow[]
  violations: Violation[]
}

export async function readLedger(db: Db): Promise<LedgerRows> {
  const [sandboxes, operations, checkpoints, executions, output, keys, violations] = await Promise.all([
    db.selectFrom('sandboxes').selectAll().execute(),
    db
      .selectFrom('operations')
      .innerJoin('sandboxes', 'sandboxes.id', 'operations.sandbox_id')
      .selectAll('operations')
      .select('backend')
      .orderBy('sandbox_id')
      .orderBy('place')
      .execute(),
    db
      .selectFrom('checkpoints')
      .innerJoin('sandboxes', 'sandboxes.id', 'checkpoints.sandbox_id')
      .selectAll('checkpoints')
      .select('backend')
      .execute(),
    db.selectFrom('executions').selectAll().orderBy('id').execute(),
    db.selectFrom('output').selectAll().orderBy('execution_id').orderBy('from_byte').execute(),
    db.selectFrom('idempotency_keys').selectAll().execute(),
    findViolations(db, { fleet: FLEET }),
  ])
  const printed = new Map<string, Buffer[]>()
  for (const { execution_id, bytes } of output)
    printed.set(execution_id, [...(printed.get(execution_id) ?? []), Buffer.from(bytes)])
  const promised = new Set(operations.filter(({ kind }) => kind === 'snapshot').map((one) => one.checkpoint_id))
  return {
    sandboxes,
    operations,
    checkpoints: checkpoints.map((row) => ({ ...row, isPromised: promised.has(row.id) })),
    executions: executions.map((row) => ({ ...row, output: Buffer.concat(printed.get(row.id) ?? []).toString() })),
    keys,
    violations,
  }
}

/** How much has not come to rest: operations, sandboxes, executions. */
export async function countOpen(databaseUrl: string): Promise<number> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: 30_000 })
  await client.connect()
  try {
    const { rows } = await client.query<{ open: string }>(`select
      (select count(*) from sandman.operations where status in ('waiting', 'active')) +
      (select count(*) from sandman.sandboxes where operation_id is not null) +
      (select count(*) from sandman.executions where status in ('queued', 'running')) as open`)
    return Number(rows[0]?.open)
  } finally {
    await client.end()
  }
}
