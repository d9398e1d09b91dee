import type { Fleet } from '../fleet/fleet.ts'
import { shared } from '../fleet/share.ts'
import type { Routes } from './routes.ts'

/** For so long a look at everything is believed: shorter than any probe's pause. */
const READY_MS = 500

/** For load balancers and orchestrators, which have no token. They are told whether, not why: the console says that. */
export function serveHealth(routes: Routes, fleet: Fleet): void {
  // Anybody may ask, as often as they like: it is looked at once in a while, for all of them.
  const health = shared(READY_MS, () => fleet.health(), 0)
  routes.add('GET', '/healthz', 'anybody', (c) => c.json({ status: 'alive' }))
  routes.add('GET', '/readyz', 'anybody', async (c) => {
    const { ready, checks } = await health()
    const verdicts = Object.entries(checks).map(([name, { ok }]) => [name, ok ? 'ok' : 'failing'])
    return c.json({ status: ready ? 'ready' : 'not_ready', checks: Object.fromEntries(verdicts) }, ready ? 200 : 503)
  })
}
