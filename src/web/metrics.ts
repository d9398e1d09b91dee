import type { Fleet } from '../fleet/fleet.ts'
import type { Routes } from './routes.ts'

/** For Prometheus: one of the web processes speaks for the whole fleet, workers included. */
export function serveMetrics(routes: Routes, fleet: Fleet): void {
  routes.add('GET', '/metrics', 'read', async (c) => {
    const text = await fleet.metrics()
    return c.body(text, 200, {
      'content-type': 'text/plain; version=0.0.4; charset=utf-8',
      'cache-control': 'no-store',
    })
  })
}
