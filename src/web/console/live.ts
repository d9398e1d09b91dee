import { setTimeout as sleep } from 'node:timers/promises'
import { streamSSE } from 'hono/streaming'
import { isSandmanError } from '../../errors.ts'
import type { Fleet } from '../../fleet/fleet.ts'
import { ChangesRequest, parseRequest } from '../../fleet/requests.ts'
import { explain, problem } from '../problem.ts'
import type { Routes, WebContext } from '../routes.ts'
import { SIGN_OF_LIFE_MS } from '../sign-of-life.ts'
import { type Watched, watchedIn } from './live-path.ts'
import { readable } from './terminal.ts'

/** Pages that one process keeps true at the same time. Each is a connection; more are told to try again. */
export const STREAMS_MAX = 256
/** How often somebody who looks at the whole fleet looks again: as often as it is read anew. */
const OVERVIEW_EVERY_MS = 5_000
/** Then the browser comes again by itself, and is asked anew who it is. */
const STREAM_MS_MAX = 15 * 60_000
const AGAIN_MS = 2_000

/** Tells a page what has changed, and what is printed, for as long as somebody looks. The page fetches itself; nothing of a fleet is told here but output. */
export function serveLive(routes: Routes, fleet: Fleet): void {
  let streams = 0
  routes.add('GET', '/live', 'read', async (c) => {
    // Whoever asks only whether there is such a stream would never read it to its end.
    if (c.req.method === 'HEAD') return c.body(null, 200, { 'content-type': 'text/event-stream' })
    if (streams >= STREAMS_MAX) {
      const message = `${STREAMS_MAX} pages are kept live here already: this one is not, until one of them is closed.`
      return problem(c, 503, { errorType: 'too_many_streams', message, retryable: true })
    }
    const watched = watchedIn((name) => c.req.query(name))
    // Before anything is waited for, or of many who come at once all would find room.
    streams++
    let isRefused = true
    try {
      const refused = await refusal(c, fleet, watched)
      if (refused) return refused
      isRefused = false
    } finally {
      if (isRefused) streams--
    }
    return streamSSE(c, async (stream) => {
      const ending = new AbortController()
      const end = () => ending.abort(new Error('the page was left'))
      stream.onAbort(end)
      const over = setTimeout(end, STREAM_MS_MAX)
      try {
        await stream.write(`retry: ${AGAIN_MS}\n\n`)
        await Promise.race(
          sources(fleet, watched, lastHeard(c), ending.signal).map((tell) => tell((event) => stream.writeSSE(event))),
        )
      } catch (error) {
        // Who has left is not told, and who is still there comes again.
        if (!ending.signal.aborted && !isSandmanError(error)) throw error
      } finally {
        end()
        clearTimeout(over)
        streams--
      }
    })
  })
}

/** What cannot be watched is said at once, and not by a stream that ends again and again. */
async function refusal(c: WebContext, fleet: Fleet, { sandboxIds, execution }: Watched): Promise<Response | undefined> {
  try {
    parseRequest(ChangesRequest, { sandboxIds })
    if (execution) await fleet.execution(execution.id)
    return undefined
  } catch (error) {
    const explained = explain(error)
    if (!explained) throw error
    return problem(c, explained.status, explained.told)
  }
}

type Say = (event: { event: string; data: string; id?: string }) => Promise<void>

/** Each tells for as long as it is listened to. When one ends, all do. */
function sources(
  fleet: Fleet,
  { sandboxIds = [], newest = false, overview, execution }: Watched,
  heard: number | undefined,
  signal: AbortSignal,
): ((say: Say) => Promise<void>)[] {
  const changed = { event: 'changed', data: '' }
  return [
    async (say) => {
      for (;;) {
        await sleep(SIGN_OF_LIFE_MS, undefined, { signal })
        await say({ event: 'alive', data: '' })
      }
    },
    async (say) => {
      if (sandboxIds.length === 0 && !newest) return forever(signal)
      for await (const _ of fleet.changes({ sandboxIds: [...sandboxIds], newest, signal })) await say(changed)
    },
    async (say) => {
      if (!overview) return forever(signal)
      for (;;) {
        await sleep(OVERVIEW_EVERY_MS, undefined, { signal })
        await say(changed)
      }
    },
    async (say) => {
      if (execution) await tellOutput(fleet, { ...execution, from: heard ?? execution.from }, signal, say)
      return forever(signal)
    },
  ]
}

/** Who comes again says up to which byte it has heard. */
function lastHeard(c: WebContext): number | undefined {
  const heard = Number(c.req.header('last-event-id') || Number.NaN)
  return Number.isSafeInteger(heard) && heard >= 0 ? heard : undefined
}

async function tellOutput(
  fleet: Fleet,
  { id, from }: { id: string; from: number },
  signal: AbortSignal,
  say: Say,
): Promise<void> {
  let at = from
  let rest: Uint8Array = new Uint8Array()
  for await (const piece of fleet.output(id, { from, signal })) {
    if (rest.length === 0) at = piece.from
    const bytes = rest.length === 0 ? piece.bytes : Buffer.concat([rest, piece.bytes])
    const { text, length } = readable(bytes)
    rest = bytes.subarray(length)
    if (length === 0) continue
    const data = JSON.stringify({ executionId: id, from: at, to: at + length, text })
    at += length
    await say({ event: 'output', data, id: String(at) })
  }
  // How it ended is on the page, and so is what is left of a character or an escape that never came to its end.
  await say({ event: 'changed', data: '' })
}

function forever(signal: AbortSignal): Promise<void> {
  return new Promise((_, reject) => {
    if (signal.aborted) reject(signal.reason)
    signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  })
}
