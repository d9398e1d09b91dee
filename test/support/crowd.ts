import { setTimeout as sleep } from 'node:timers/promises'
import { type ControlledTransaction, sql } from 'kysely'
import type { Db } from '../../src/db/pool.ts'
import type { Requested } from '../../src/db/request.ts'
import type { Database } from '../../src/db/schema.ts'
import type { Request } from '../../src/sandbox/judge.ts'
import { endingOf, type Ledger, ledgerOn, type ProviderResult } from './ledger.ts'

/** What a crowd is going to do. The same plan is the same story again. */
export type Plan = {
  /** What each client asks for, one request after the other. */
  clients: { sandbox: number; request: Request; idempotencyKey?: string | undefined }[][]
  /** What the provider does with each call, in order; after the last one, it works. */
  results: ProviderResult[]
  /** Who of those who can move is next, and whether it dies there: its transaction, and what it has taken, are lost. */
  moves: { who: number; dies: boolean }[]
}

/** Between two moves an actor may have a transaction open; it is told with its next move whether it dies. */
type Moves = AsyncGenerator<void, void, boolean>

type Actor = {
  moves: Moves
  pid: number | undefined
  /** The move under way, when it waits for somebody else's lock. */
  pending: Promise<void> | undefined
  isFinished: boolean
}

/**
 * Lets clients and workers loose on the same sandboxes, on a connection each, with transactions that stay open while others
 * move: one move is one statement, or the end of a transaction. A statement that waits for a lock waits, and the others go on.
 * Who moves when is the plan's to say, so nothing depends on how fast anything is.
 */
export async function letLoose(db: Db, ledger: Ledger, sandboxIds: string[], plan: Plan): Promise<Requested[]> {
  const answers: Requested[] = []
  const results = [...plan.results]
  const idOf = (index: number) => sandboxIds[index % sandboxIds.length] as string
  /** Given back when a crowd fails half-way, so that the next one finds connections. */
  const open = new Set<ControlledTransaction<Database>>()
  let isOver = false

  /** One statement in a transaction of its own. */
  async function begin<Result>(actor: Actor, statement: (own: Ledger) => Promise<Result>) {
    const transaction = await db.startTransaction().execute()
    open.add(transaction)
    actor.pid = await pidOf(transaction)
    const result = await statement(ledgerOn(transaction, ledger))
    const end = async (dies: boolean) => {
      await (dies ? transaction.rollback() : transaction.commit()).execute()
      open.delete(transaction)
    }
    return { result, end }
  }

  async function* client(asks: Plan['clients'][number], actor: Actor): Moves {
    for (const { sandbox, request, idempotencyKey } of asks) {
      const asked = { options: request.options, idempotencyKey }
      if (idempotencyKey) {
        // One with a key may find it taken and asks again, which only works outside of a transaction.
        const answer = await db.connection().execute(async (connection) => {
          actor.pid = await pidOf(connection)
          return ledgerOn(connection, ledger).ask(idOf(sandbox), request.kind, asked).catch(unlessKeyIsReused)
        })
        if (answer) answers.push(answer)
      } else {
        const { result, end } = await begin(actor, (own) => own.ask(idOf(sandbox), request.kind, asked))
        const dies = yield
        await end(dies)
        if (!dies) answers.push(result)
      }
      yield
    }
  }

  async function* worker(first: number, actor: Actor): Moves {
    for (let turn = first; !isOver; turn++) {
      const operation = await ledger.active(idOf(turn))
      yield
      if (!operation) continue

      const taking = await begin(actor, (own) => own.tryBegin(operation.id))
      let dies = yield
      await taking.end(dies)
      const taken = taking.result
      if (dies || !taken.attempt || (yield)) continue

      const ending = endingOf(taken, results.shift() ?? 'works')
      if (yield) continue

      const settling = await begin(actor, (own) => own.tryEnd(taken.attempt, ending))
      dies = yield
      await settling.end(dies)
      yield
    }
  }

  const make = (movesOf: (actor: Actor) => Moves): Actor => {
    const actor: Actor = { moves: undefined as never, pid: undefined, pending: undefined, isFinished: false }
    actor.moves = movesOf(actor)
    return actor
  }
  const actors = [
    ...plan.clients.map((asks) => make((actor) => client(asks, actor))),
    ...[0, 1].map((first) => make((actor) => worker(first, actor))),
  ]

  const move = async (actor: Actor, dies: boolean): Promise<void> => {
    actor.pid = undefined // its last connection may be somebody else's by now
    actor.pending = actor.moves.next(dies).then(({ done }) => {
      actor.pending = undefined
      actor.isFinished = done === true
    })
    // Most are done before anybody could look, and to look costs as much as what they do.
    await Promise.race([actor.pending, sleep(LOOK_AGAIN_MS)])
    // Who gets the lock and is done with it at once lets the next one go on, also one that has been looked at already.
    for (let waiting = -1; waiting !== pending(); ) {
      waiting = pending()
      for (const actor of actors) await untilBlockedOrDone(db, actor)
    }
  }
  const pending = () => actors.filter((actor) => actor.pending).length
  const free = () => actors.filter(({ pending, isFinished }) => !pending && !isFinished)

  try {
    for (const { who, dies } of plan.moves) {
      const candidates = free()
      const actor = candidates[who % candidates.length]
      if (actor) await move(actor, dies)
    }
    // The plan is over: everybody finishes what it has begun, and nobody dies any more.
    isOver = true
    for (let round = 0; actors.some(({ isFinished }) => !isFinished); round++) {
      if (round > 100) throw new Error('the crowd never comes to an end')
      for (const actor of free()) await move(actor, false)
    }
  } finally {
    for (const transaction of open) await transaction.rollback().execute()
    await Promise.allSettled(actors.map(({ pending }) => pending))
  }
  return answers
}

function unlessKeyIsReused(error: { code?: string }): undefined {
  if (error.code !== 'idempotency_key_reused') throw error
}

async function pidOf(connection: Db): Promise<number | undefined> {
  const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(connection)
  return rows[0]?.pid
}

const LOOK_AGAIN_MS = 1

async function untilBlockedOrDone(db: Db, actor: Actor): Promise<void> {
  while (actor.pending !== undefined) {
    const { rows } = await sql<{ blocked: boolean }>`
      select cardinality(pg_blocking_pids(${actor.pid ?? 0})) > 0 as blocked`.execute(db)
    if (rows[0]?.blocked) return
    await Promise.race([actor.pending, sleep(LOOK_AGAIN_MS)])
  }
}
