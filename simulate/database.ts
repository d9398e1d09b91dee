import { Kysely, PostgresDialect, type PostgresPool, type PostgresPoolClient } from 'kysely'
import type pg from 'pg'
import type { Clock } from '../src/clock.ts'
import type { Db } from '../src/db/pool.ts'
import { type Database, SCHEMA } from '../src/db/schema.ts'
import type { Conduct } from './conduct.ts'
import type { Engine, Happening } from './engine.ts'
import { type Life, requireLife } from './life.ts'

/** What a statement carries where it means the present. The database puts its own time there, when it runs it. */
const NOW = '1970-01-01T00:00:00.042Z'

export const databaseClock: Clock = { stoppedAt: () => new Date(NOW) }

type Answer = { command: string; rowCount: number | null; rows: Record<string, unknown>[] }

/** One connection of a simulated process. */
type Session = { life: Life; isBroken: boolean; hasBegun: boolean }

type DatabaseParts = {
  engine: Engine
  client: pg.ClientBase
  conduct: Conduct
  /** What is run in the place of a statement. */
  rewrite: (text: string) => string
}

/**
 * The way from simulated processes to a real Postgres. A statement takes its time to get there, is run alone, and its answer takes
 * its time back: in between its process may die, stop, or do something else. Whoever has begun a transaction has the database for
 * itself until that has ended.
 */
export class SimulatedDatabase {
  readonly #engine: Engine
  readonly #client: pg.ClientBase
  readonly #conduct: Conduct
  readonly #rewrite: (text: string) => string
  readonly db: Db
  statements = 0
  #transaction: Session | undefined
  #waiting: (() => void)[] = []
  readonly #onTheWay = new WeakMap<Life, Set<Happening>>()

  constructor({ engine, client, conduct, rewrite }: DatabaseParts) {
    this.#engine = engine
    this.#client = client
    this.#conduct = conduct
    this.#rewrite = rewrite
    const pool: PostgresPool = {
      connect: async () => this.#connect(),
      end: async () => {},
      options: {} as PostgresPool['options'],
    }
    this.db = new Kysely<Database>({ dialect: new PostgresDialect({ pool }) }).withSchema(SCHEMA)
  }

  /** Whether a process holds everybody else up. */
  isHeldBy(life: Life): boolean {
    return this.#transaction?.life === life
  }

  #connect(): PostgresPoolClient {
    const session: Session = { life: requireLife(), isBroken: false, hasBegun: false }
    const query = (text: string, values: readonly unknown[]) => this.#query(session, text, values)
    return { query: query as PostgresPoolClient['query'], release: () => {} }
  }

  #query(session: Session, text: string, values: readonly unknown[]): Promise<Answer> {
    const { promise, resolve, reject } = Promise.withResolvers<Answer>()
    const { life } = session
    const name = nameOf(text)
    const [wayThereMs, wayBackMs] = [this.#conduct.statementMs(), this.#conduct.statementMs()]
    const mishap = this.#conduct.databaseMishap()
    const run = async (): Promise<void> => {
      // With its connection, a transaction is lost, and nothing more of it is run.
      if (life.isDead && (session.hasBegun || BEGIN.test(text))) return
      if (this.#transaction !== undefined && this.#transaction !== session) {
        this.#waiting.push(() => this.#engine.after(0, `${name} gets its turn`, run))
        return
      }
      const isRun = mishap !== 'lost' && !session.isBroken
      const answer = isRun ? await this.#run(text, values) : undefined
      await this.#follow(session, text, mishap)
      if (mishap !== undefined) session.isBroken = true
      const detail = answer instanceof Error ? `failed: ${answer.message}` : `${answer?.rowCount ?? 'no'} rows`
      this.#engine.reach(life, wayBackMs, `${name}: ${mishap ? `connection lost (${mishap})` : detail}`, () => {
        if (mishap !== undefined || answer === undefined) reject(new Error('Connection terminated unexpectedly'))
        else if (answer instanceof Error) reject(answer)
        else resolve(answer)
      })
    }
    const onTheWay = this.#onTheWayOf(life)
    const coming = this.#engine.after(wayThereMs, `${life.name} runs ${name}`, () => {
      onTheWay.delete(coming)
      return run()
    })
    onTheWay.add(coming)
    return promise
  }

  /** What a process that dies has on its way gets there all the same, or does not. */
  #onTheWayOf(life: Life): Set<Happening> {
    const known = this.#onTheWay.get(life)
    if (known) return known
    const onTheWay = new Set<Happening>()
    this.#onTheWay.set(life, onTheWay)
    life.atDeath(() => {
      for (const coming of onTheWay) coming.isCancelled = this.#engine.random.chance(0.5)
    })
    return onTheWay
  }

  async #run(text: string, values: readonly unknown[]): Promise<Answer | Error> {
    this.statements++
    const now = new Date(this.#engine.nowMs).toISOString()
    const given = values.map((value) => (value === NOW ? now : value))
    try {
      const { command, rowCount, rows } = await this.#client.query(this.#rewrite(text), given)
      this.#engine.trace.tellSilently(JSON.stringify(rows))
      return { command, rowCount, rows }
    } catch (error) {
      return error as Error
    }
  }

  /** Who has begun a transaction, and whether that is over now: also because its connection was lost. */
  async #follow(session: Session, text: string, mishap: string | undefined): Promise<void> {
    if (this.#transaction === undefined && BEGIN.test(text) && mishap !== 'lost') {
      this.#transaction = session
      session.hasBegun = true
      session.life.atDeath(() => {
        if (this.#transaction === session)
          this.#engine.after(0, 'rolls back what a dead process had begun', () => this.#end('rollback'))
      })
    }
    if (this.#transaction !== session) return
    if (/^(commit|rollback)$/.test(text) && mishap === undefined) return this.#end(undefined)
    if (mishap !== undefined) await this.#end(text === 'commit' && mishap === 'unheard' ? undefined : 'rollback')
  }

  async #end(by: 'rollback' | undefined): Promise<void> {
    if (this.#transaction === undefined) return
    if (by) await this.#client.query(by)
    this.#transaction = undefined
    const waiting = this.#waiting
    this.#waiting = []
    for (const goOn of waiting) goOn()
  }
}

const BEGIN = /^(begin|start transaction)/
const NAME = /^\s*\/\* (\w+) \*\//

function nameOf(text: string): string {
  return NAME.exec(text)?.[1] ?? text.trim().replaceAll(/\s+/g, ' ').slice(0, 48)
}
