import type { Server } from 'node:http'
import type { Fleet } from 'sandman'

/** How long the last answers may take. Less than whoever sends SIGTERM waits before it sends SIGKILL. */
const LAST_ANSWERS_MS = 10_000

/**
 * On SIGTERM, as in every deploy: no new requests, streams of output end, who waits is answered with what there is, and when the last
 * answer is out the connections to Postgres and Redis are closed. Nothing that was accepted is lost: the workers carry it out.
 */
export function closeWhenTold(server: Server, fleet: Fleet, stopping: AbortController): void {
  const close = () => {
    server.close(() => void fleet.close())
    stopping.abort()
    fleet.stopWaiting()
    setTimeout(() => server.closeAllConnections(), LAST_ANSWERS_MS).unref()
  }
  process.once('SIGTERM', close)
  process.once('SIGINT', close)
}
