import { Kysely, PostgresDialect } from 'kysely'
import pg from 'pg'
import type { Db } from '../../src/db/pool.ts'
import type { Database } from '../../src/db/schema.ts'
import { closePool, openPool } from '../../src/pg-pool.ts'

type Plan = {
  'Node Type': string
  'Relation Name'?: string
  'Actual Rows': number
  'Actual Loops': number
  'Rows Removed by Filter'?: number
  'Rows Removed by Index Recheck'?: number
  Plans?: Plan[]
}

/** What a statement has read: of which tables every row, and how many rows of all of them. */
type Cost = { scannedWhole: string[]; rows: number }

/**
 * Runs statements as they are, only that each is explained by the server instead of answered: what it did, and what that cost.
 * Whoever calls gets no rows.
 */
export function explaining(databaseUrl: string): { db: Db; costs: Cost[]; close(): Promise<void> } {
  const costs: Cost[] = []
  class ExplainedClient extends pg.Client {
    override query(...args: unknown[]): never {
      const passOn = super.query as (...args: unknown[]) => Promise<{ rows: Record<string, unknown>[] }>
      const [text, ...rest] = args
      if (typeof text !== 'string' || !/^\s*(\/\*|with|select|insert|update|delete)/.test(text))
        return passOn.apply(this, args) as never
      return passOn.call(this, `explain (analyze, format json) ${text}`, ...rest).then((result) => {
        const [{ Plan }] = (result.rows[0] as { 'QUERY PLAN': [{ Plan: Plan }] })['QUERY PLAN']
        costs.push(costOf(Plan))
        return { ...result, rows: [] }
      }) as never
    }
  }
  const pool = openPool({ connectionString: databaseUrl, Client: ExplainedClient, max: 1 }, () => {})
  const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) }).withSchema('sandman')
  return { db, costs, close: () => closePool(pool) }
}

function costOf(plan: Plan): Cost {
  const below = (plan.Plans ?? []).map(costOf)
  const reads = plan['Relation Name'] !== undefined && plan['Node Type'] !== 'ModifyTable'
  const seen =
    plan['Actual Rows'] + (plan['Rows Removed by Filter'] ?? 0) + (plan['Rows Removed by Index Recheck'] ?? 0)
  return {
    scannedWhole: [
      ...(plan['Node Type'] === 'Seq Scan' ? [plan['Relation Name'] as string] : []),
      ...below.flatMap(({ scannedWhole }) => scannedWhole),
    ],
    rows: (reads ? seen * plan['Actual Loops'] : 0) + below.reduce((sum, { rows }) => sum + rows, 0),
  }
}
