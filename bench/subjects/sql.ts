/** The statements of operations alone: as a worker makes them, on as many connections, as many at once, without queue or provider. */
import { runningClock } from '../../src/clock.ts'
import { openDb } from '../../src/db/pool.ts'
import { request } from '../../src/db/request.ts'
import { Events } from '../../src/events.ts'
import { QUEUE_OF_KIND } from '../../src/queues/catalog.ts'
import { inParallel } from '../in-parallel.ts'
import { statementsOf } from '../statements.ts'
import type { MeasuredKind } from './order.ts'
import { profiled, serve, stopwatch } from './serve.ts'

type TakenRow = { sandbox: { fence: number; provider_ref: string }; checkpoint: { id: string } | null }

await serve(async (order) => {
  const { databaseUrl, fleet } = order
  const { db, pool, close } = openDb({ databaseUrl, applicationName: 'sandman bench sql', events: new Events() })

  async function operate(kind: MeasuredKind, operationIds: string[]) {
    const { take, settle, tidyUp } = await statementsOf(kind, fleet)
    const read = stopwatch()
    await inParallel(operationIds, QUEUE_OF_KIND[kind].concurrency, async (operationId) => {
      const { rows } = await pool.query<TakenRow>(take.text, take.values({ operationId }))
      const [taken] = rows
      if (!taken) throw new Error(`${operationId} was not taken`)
      const { fence, provider_ref: providerRef } = taken.sandbox
      const settled = await pool.query<{ sandbox: unknown }>(
        settle.text,
        settle.values({ operationId, fence, providerRef }),
      )
      if (!settled.rows[0]?.sandbox) throw new Error(`${operationId} was not settled`)
      if (tidyUp) await pool.query(tidyUp.text, tidyUp.values({ checkpointId: taken.checkpoint?.id }))
    })
    return read(operationIds.length)
  }

  return {
    async drain({ kind, sandboxIds }: { kind: MeasuredKind; sandboxIds: string[] }) {
      const operationIds: string[] = []
      await inParallel(sandboxIds, QUEUE_OF_KIND[kind].concurrency, async (sandboxId) => {
        const { operation } = await request(db, { fleet, sandboxId, kind, clock: runningClock })
        operationIds.push(operation.id)
      })
      return profiled(order, 'sql', () => operate(kind, operationIds))
    },
    stop: close,
  }
})
