/** The statements of operations alone: as a worker makes them, on as many connections, as many at once, without queue or provider. */
import { runningClock } from '../../src/clock.ts'
import { openDb } from '../../src/db/pool.ts'
import type { SandboxRow } from '../../src/db/schema.ts'
import { Events } from '../../src/events.ts'
import { openSettler, openTaker } from '../../src/jobs/together.ts'
import { QUEUE_OF_KIND } from '../../src/queues/catalog.ts'
import { inParallel } from '../in-parallel.ts'
import { makeRequested } from '../rows.ts'
import { endingOf, statementsOf } from '../statements.ts'
import type { MeasuredKind } from './order.ts'
import { profiled, serve, stopwatch } from './serve.ts'

await serve(async (order) => {
  const { databaseUrl, fleet } = order
  const { db, pool, close } = openDb({ databaseUrl, applicationName: 'sandman bench sql', events: new Events() })

  /** Each operation by statements of its own. */
  async function alone(kind: MeasuredKind) {
    const { take, settle } = await statementsOf(kind, fleet)
    return async (operationId: string) => {
      const taken = await pool.query<{ sandbox: SandboxRow }>(take.text, take.values({ operationId }))
      if (!taken.rows[0]) throw new Error(`${operationId} was not taken`)
      const { fence, provider_ref: providerRef } = taken.rows[0].sandbox
      const settled = await pool.query<{ sandbox: unknown }>(
        settle.text,
        settle.values({ operationId, fence, providerRef }),
      )
      if (!settled.rows[0]?.sandbox) throw new Error(`${operationId} was not settled`)
    }
  }

  /** With others that wait, as a worker does it. */
  function together(kind: MeasuredKind) {
    const taker = openTaker(db, { fleet, worker: 'bench', clock: runningClock })
    const settler = openSettler(db, runningClock)
    return async (operationId: string) => {
      const taken = await taker.ask(operationId)
      if (!taken.attempt) throw new Error(`${operationId} was not taken`)
      const { settled } = await settler.ask({
        attempt: taken.attempt,
        ending: endingOf(kind, taken.sandbox.provider_ref as string),
      })
      if (!settled) throw new Error(`${operationId} was not settled`)
    }
  }

  async function operate(kind: MeasuredKind, operationIds: string[], isTogether: boolean) {
    const work = isTogether ? together(kind) : await alone(kind)
    const read = stopwatch()
    await inParallel(operationIds, QUEUE_OF_KIND[kind].concurrency, work)
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
