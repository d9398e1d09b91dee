import type { MiddlewareHandler } from 'hono'
import { isPerson } from '../access.ts'
import type { problemBody } from '../problem.ts'
import { type WebEnv, withoutBase } from '../routes.ts'
import { problemPage } from './failure-page.ts'
import { viewOf } from './view.ts'

/** What programs are told as JSON, people are told as a page. Not strangers: the frame of a page names the fleet. */
export function tellPeople(fleet: { name: string }): MiddlewareHandler<WebEnv> {
  return async (c, next) => {
    await next()
    const isProblem = c.res.headers.get('content-type') === 'application/problem+json'
    const isApi = /^\/v1(\/|$)/.test(withoutBase(c.req.path, c.get('basePath')))
    if (!isProblem || !isPerson(c) || !c.get('caller') || isApi) return
    const { status } = c.res
    const told = (await c.res.json()) as ReturnType<typeof problemBody>
    const page = await problemPage(viewOf(c, fleet), { status, errorType: told.error_type, message: told.message })
    c.res = new Response(page, { status, headers: { 'content-type': 'text/html; charset=UTF-8' } })
  }
}
