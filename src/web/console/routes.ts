import type { Fleet } from '../../fleet/fleet.ts'
import type { Routes } from '../routes.ts'
import { homePage } from './home.ts'

/** What people look at. */
export function serveConsole(routes: Routes, fleet: Fleet): void {
  routes.add('GET', '/', 'read', async (c) => c.html(homePage({ fleet: fleet.name, readiness: await fleet.health() })))
}
