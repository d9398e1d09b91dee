import { Kysely, PostgresDialect } from 'kysely'
import type pg from 'pg'
import { runningClock } from '../src/clock.ts'
import type { Ending } from '../src/db/ending.ts'
import type { Db } from '../src/db/pool.ts'
import { type Database, SCHEMA } from '../src/db/schema.ts'
import { settle } from '../src/db/settle.ts'
import { take } from '../src/db/take.ts'
import { QUEUE_OF_KIND } from '../src/queues/catalog.ts'
import { KINDS } from '../src/sandbox/judge.ts'
import type { MeasuredKind } from './subjects/order.ts'

/** A statement as it goes to the server, for whichever operation, attempt or instance. */
type Statement = { text: string; values(of: Partial<Record<Blank, unknown>>): unknown[] }

type Blank = keyof typeof BLANKS

/** What no real row has, so that it is found again among the values of a statement. */
const BLANKS = {
  operationId: 'op_of_a_template',
  fence: 2_000_000_001,
  providerRef: 'ref_of_a_template',
} as const

/** What the ledger says of one operation, from the moment that a worker has heard of it: the statements, with nothing around them. */
export async function statementsOf(kind: MeasuredKind, fleet: string): Promise<Record<'take' | 'settle', Statement>> {
  const { operationId, fence } = BLANKS
  const kinds = KINDS.filter((each) => QUEUE_OF_KIND[each] === QUEUE_OF_KIND[kind])
  const attempt = { fleet, operationId, fence }
  const asked = { fleet, operationId, worker: 'bench', kinds, backends: ['noop'], clock: runningClock }
  return {
    take: await recorded((db) => take(db, asked)),
    settle: await recorded((db) =>
      settle(db, { attempt, ending: endingOf(kind, BLANKS.providerRef), clock: runningClock }),
    ),
  }
}

/** How an operation of each kind ends when all goes well. */
export function endingOf(kind: MeasuredKind, providerRef: string): Ending {
  const done = { status: 'succeeded', outcome: 'done' } as const
  if (kind === 'pause')
    return {
      ...done,
      rest: { state: 'suspended', checkpoint: { kind: 'pause', providerRef, sizeBytes: 1_000 } },
      evidence: { seen: 'suspended', checkpoint: { ref: providerRef, is: 'ready', sizeBytes: 1_000 } },
    }
  return {
    ...done,
    rest: { state: 'running', providerRef, incarnation: 'run-1' },
    checkpoints: { which: 'own', are: 'deleted' },
    evidence: { seen: 'running' },
  }
}

/** The first statement that comes of some work, by a database that knows nothing. */
async function recorded(work: (db: Db) => Promise<unknown>): Promise<Statement> {
  let first: { text: string; values: readonly unknown[] } | undefined
  const client = {
    async query(text: string, values: readonly unknown[]) {
      first ??= { text, values }
      return { command: 'SELECT', rowCount: 0, rows: [] }
    },
    release() {},
  }
  const pool = { connect: async () => client, end: async () => {} } as unknown as pg.Pool
  const db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) }).withSchema(SCHEMA)
  await work(db).catch(() => {}) // what it makes of an answer that is none is not asked for
  if (!first) throw new Error('no statement was made')
  const { text, values } = first
  const blanks = Object.entries(BLANKS) as [Blank, string | number][]
  const fill = (value: unknown, of: Partial<Record<Blank, unknown>>): unknown => {
    if (Array.isArray(value)) return value.map((each) => fill(each, of))
    if (typeof value !== 'string') return value
    return blanks.reduce((text, [name, blank]) => text.replaceAll(String(blank), String(of[name])), value)
  }
  return { text, values: (of) => values.map((value) => fill(value, of)) }
}
