import { Redis } from 'ioredis'
import pg from 'pg'

/** Questions that this process has asked its stores. Each is one round trip: a statement is prepared and run in the same one. */
export type Counts = { ledger: number; queue: number; redis: number }

/** From now on, all that goes to a store is counted, whoever opens the connection. */
export function countQuestions(): () => Counts {
  const counts: Counts = { ledger: 0, queue: 0, redis: 0 }
  type Client = pg.Client & { connectionParameters: { application_name?: string } }
  const client = pg.Client.prototype as unknown as { query(this: Client, ...args: unknown[]): unknown }
  const { query } = client
  client.query = function (this: Client, ...args: unknown[]) {
    const isQueue = this.connectionParameters.application_name?.startsWith('sandman queue')
    counts[isQueue ? 'queue' : 'ledger']++
    return query.apply(this, args)
  }
  const redis = Redis.prototype as unknown as { sendCommand(...args: unknown[]): unknown }
  const { sendCommand } = redis
  redis.sendCommand = function (this: unknown, ...args: unknown[]) {
    counts.redis++
    return sendCommand.apply(this, args)
  }
  return () => ({ ...counts })
}

export function difference(after: Counts, before: Counts): Counts {
  return {
    ledger: after.ledger - before.ledger,
    queue: after.queue - before.queue,
    redis: after.redis - before.redis,
  }
}

/** All that a Redis has carried out so far, also what a script of it has asked for. */
export async function commandsOf(redis: Redis): Promise<number> {
  const info = await redis.info('commandstats')
  return [...info.matchAll(/:calls=(\d+)/g)].reduce((sum, [, calls]) => sum + Number(calls), 0)
}
