import type { Events } from '../../events.ts'
import { openPostgresStore } from './postgres-store.ts'
import { openRedisStore } from './redis-store.ts'
import type { ConnectionWatch, QueueStore, StoreOptions } from './store.ts'

/** Redis when there is one, else Postgres. */
export function openStore(options: StoreOptions): QueueStore {
  const watch = watchConnection(options.events)
  const store =
    options.redisUrl === undefined
      ? openPostgresStore(options, watch)
      : openRedisStore(options.redisUrl, options, watch)
  return {
    ...store,
    async close(withinMs) {
      watch.end()
      await store.close(withinMs)
    },
  }
}

/**
 * Says once that the store is away, and once that it is back, however often a client retries in between. What breaks
 * because we are closing is not worth a word.
 */
function watchConnection(events: Events): ConnectionWatch & { end(): void } {
  let away = false
  let ended = false
  const lost = (error: unknown) => {
    if (!away && !ended) events.emit('queue.connection_lost', { error })
    away = true
  }
  return {
    lost,
    restored() {
      if (away) events.emit('queue.connection_restored')
      away = false
    },
    report(error) {
      if (isConnectionError(error)) lost(error)
      else if (!ended) events.emit('queue.error', { error })
    },
    end() {
      ended = true
    },
  }
}

const CONNECTION_CODES = /^(ECONN|EPIPE|ETIMEDOUT|EHOSTUNREACH|ENOTFOUND|EAI_AGAIN|08|57P0[123])/
const CONNECTION_WORDS =
  /connection (is closed|terminated|timeout|ended)|socket (closed|timeout)|timeout exceeded|client was closed|not queryable|stream isn't writeable|query read timeout|failed to refresh slots/i

/** By code where there is one; neither `pg` nor `ioredis` gives every lost connection a code. */
function isConnectionError(error: unknown): boolean {
  if (!(error instanceof Error)) return false
  const code = (error as { code?: unknown }).code
  return (typeof code === 'string' && CONNECTION_CODES.test(code)) || CONNECTION_WORDS.test(error.message)
}
