import type { Fleet } from '../fleet/fleet.ts'
import type { Routes } from './routes.ts'

/** For load balancers and orchestrators, which have no token. They are told whether, not why: the console says that. */
export function serveHealth(routes: Routes, fleet: Fleet): void {
  routes.add('GET', '/healthz', 'anybody', (c) => c.json({ status: 'alive' }))
  routes.add('GET', '/readyz', 'anybody', async (c) => {
    const { ready, checks } = await fleet.health()
    const verdicts = Object.entries(checks).map(([name, { ok }]) => [name, ok ? 'ok' : 'failing'])
    return c.json({ status: ready ? 'ready' : 'not_ready', checks: Object.fromEntries(verdicts) }, ready ? 200 : 503)
  })
}
