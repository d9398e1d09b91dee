import type { Fleet } from '../../fleet/fleet.ts'
import type { Routes } from '../routes.ts'
import { serveAssets } from './assets.ts'
import { serveExecutions } from './execution-routes.ts'
import { frontPage } from './front.ts'
import { serveList } from './list-routes.ts'
import { serveLive } from './live.ts'
import { Pages } from './pages.ts'
import { serveSandbox } from './sandbox-routes.ts'

/** What people look at. Every page works without scripts; with them it also stays true while somebody looks. */
export function serveConsole(routes: Routes, fleet: Fleet): void {
  const pages = new Pages(routes, fleet)
  serveAssets(routes)
  pages.get('/', 'read', async (c, view) => frontPage(view, await fleet.overview(), new URL(c.req.url).origin))
  serveList(pages, fleet)
  serveSandbox(pages, fleet)
  serveExecutions(pages, fleet)
  serveLive(routes, fleet)
}
