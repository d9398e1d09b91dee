/** The statements of operations alone: as a worker makes them, on as many connections, as many at once, without queue or provider. */
import { runningClock } from '../../src/clock.ts'
import { openDb } from '../../src/db/pool.ts'
import { Events } from '../../src/events.ts'
import { Taker } from '../../src/jobs/taker.ts'
import { QUEUE_OF_KIND } from '../../src/queues/catalog.ts'
import { inParallel } from '../in-parallel.ts'
import { makeRequested } from '../rows.ts'
import { type Statement, statementsOf } from '../statements.ts'
import type { MeasuredKind } from './order.ts'
import { profiled, serve, stopwatch } from './serve.ts'

type TakenRow = { sandbox: { fence: number; provider_ref: string } }

await serve(async (order) => {
  const { databaseUrl, fleet } = order
  const { db, pool, close } = openDb({ databaseUrl, applicationName: 'sandman bench sql', events: new Events() })

  /** Each by a statement of its own; or together with others that wait, as a worker does it. */
  function takerOf(take: Statement, isTogether: boolean): (operationId: string) => Promise<TakenRow> {
    const taker = new Taker(db, { fleet, worker: 'bench', clock: runningClock })
    return async (operationId) => {
      const taken = isTogether
        ? await taker.take(operationId)
        : (await pool.query<TakenRow>(take.text, take.values({ operationId }))).rows[0]
      if (!taken || !('sandbox' in taken)) throw new Error(`${operationId} was not taken`)
      return taken as TakenRow
    }
  }

  async function operate(kind: MeasuredKind, operationIds: string[], isTogether: boolean) {
    const { take, settle } = await statementsOf(kind, fleet)
    const takeOne = takerOf(take, isTogether)
    const read = stopwatch()
    await inParallel(operationIds, QUEUE_OF_KIND[kind].concurrency, async (operationId) => {
      const { fence, provider_ref: providerRef } = (await takeOne(operationId)).sandbox
      const settled = await pool.query<{ sandbox: unknown }>(
        settle.text,
        settle.values({ operationId, fence, providerRef }),
      )
      if (!settled.rows[0]?.sandbox) throw new Error(`${operationId} was not settled`)
    })
    return read(operationIds.length)
  }

  return {
    async drain({ kind, sandboxIds, isTogether }: { kind: MeasuredKind; sandboxIds: string[]; isTogether: boolean }) {
      const operationIds = await makeRequested(pool, { kind, sandboxIds })
      return profiled(order, 'sql', () => operate(kind, operationIds, isTogether))
    },
    stop: close,
  }
})
