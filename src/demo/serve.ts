import { setTimeout as sleep } from 'node:timers/promises'
import { streamSSE } from 'hono/streaming'
import type { Fleet } from '../fleet/fleet.ts'
import { Pages } from '../web/console/pages.ts'
import type { Routes } from '../web/routes.ts'
import { SIGN_OF_LIFE_MS } from '../web/sign-of-life.ts'
import { DEMO_PATH, demoPage, LIVE_PATH } from './page.ts'
import type { Show } from './show.ts'

/** Adds the demo to the console in which it can be looked on. */
export function serveDemo(routes: Routes, fleet: Fleet, show: Show): void {
  new Pages(routes, fleet).get(DEMO_PATH, 'read', async (_c, view) => demoPage(view, show))

  /** Only that there is more to see: the page fetches itself. */
  routes.add('GET', LIVE_PATH, 'read', (c) => {
    if (c.req.method === 'HEAD') return c.body(null, 200, { 'content-type': 'text/event-stream' })
    return streamSSE(c, async (stream) => {
      const left = new AbortController()
      stream.onAbort(() => left.abort())
      const changed = { event: 'changed', data: '' }
      show.onChange(() => void stream.writeSSE(changed).catch(() => left.abort()), { signal: left.signal })
      await stream.writeSSE(changed) // whatever has happened since the page was made
      while (!left.signal.aborted) {
        await sleep(SIGN_OF_LIFE_MS, undefined, { signal: left.signal }).catch(() => {})
        if (!left.signal.aborted) await stream.writeSSE({ event: 'alive', data: '' })
      }
    })
  })
}
