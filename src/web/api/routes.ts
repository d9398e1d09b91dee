import type { Fleet } from '../../fleet/fleet.ts'
import { VERSION } from '../../version.ts'
import type { Routes } from '../routes.ts'

/** What programs ask for, below `/v1`. */
export function serveApi(routes: Routes, fleet: Fleet): void {
  routes.add('GET', '/v1', 'read', (c) =>
    c.json({
      name: 'sandman',
      version: VERSION,
      fleet: fleet.name,
      links: { health: '/healthz', readiness: '/readyz', queues: '/queues', console: '/' },
    }),
  )
}
