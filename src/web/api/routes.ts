import type { Fleet } from '../../fleet/fleet.ts'
import { viewOf } from '../console/view.ts'
import { problem } from '../problem.ts'
import type { Method, Routes } from '../routes.ts'
import { ENDPOINTS } from './endpoints.ts'
import { openApi } from './openapi.ts'
import { referencePage } from './reference.ts'

const METHODS: readonly Method[] = ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']

/** What programs ask for, below `/v1`, and what tells people and tools about it. */
export function serveApi(routes: Routes, fleet: Fleet): void {
  for (const endpoint of ENDPOINTS)
    routes.add(endpoint.method, endpoint.path, endpoint.scope, (c) => endpoint.serve(fleet, c))
  for (const path of new Set(ENDPOINTS.map(({ path }) => path))) refuseOthers(routes, path)

  const document = openApi(fleet)
  routes.add('GET', '/openapi.json', 'read', (c) => c.json(document))
  routes.add('GET', '/reference', 'read', (c) => c.html(referencePage(viewOf(c, fleet), document)))
}

/** A path that there is, and a method that it does not have. */
function refuseOthers(routes: Routes, path: string): void {
  const known: string[] = ENDPOINTS.filter((endpoint) => endpoint.path === path).map(({ method }) => method)
  const allow = known.flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : [method])).join(', ')
  for (const method of METHODS.filter((each) => !known.includes(each)))
    routes.add(method, path, 'read', (c) => {
      c.header('allow', allow)
      const message = `${c.req.path} cannot be asked for with ${c.req.method}, only with ${allow}.`
      return problem(c, 405, { errorType: 'method_not_allowed', message })
    })
}
