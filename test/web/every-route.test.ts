import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import type { Scope } from '../../src/config-values.ts'
import { buildApp } from '../../src/web/app.ts'
import type { Route, Routes, WebApp } from '../../src/web/routes.ts'
import { SECRETS, TOKENS, useFleet, WRONG } from './setup.ts'

/** What anybody may ask for, and why that tells nobody anything. */
const ANYBODY = [
  // Load balancers and orchestrators have no token; they hear whether, and not why.
  'GET /healthz',
  'GET /readyz',
  // Coming in, and leaving.
  'GET /login',
  'POST /login',
  'POST /logout',
  // What the page of the login looks like. There is nothing of a fleet in them.
  'GET /assets/console.css',
  'GET /assets/console.js',
  'GET /assets/theme.js',
  'GET /assets/sandman.svg',
]

const SCOPES: Scope[] = ['read', 'operate', 'admin']

const SAMPLES: Record<string, string> = { id: 'sbx_01jd0000000000000000000000' }

/** A path that a route answers. */
function sampleOf(path: string): string {
  return path.replaceAll(/:(\w+)(\{[^}]*\})?\??/g, (_, name: string) => SAMPLES[name] ?? 'some').replace(/\*$/, 'some')
}

/** What was added to the app and not by saying who may use it. What is for every method is no route, and answers nothing. */
function undeclared(app: WebApp, routes: Routes): string[] {
  const declared = new Set(routes.all.map(named))
  const known = app.routes.filter(({ method }) => method !== 'ALL').map(({ method, path }) => `${method} ${path}`)
  return known.filter((route) => !declared.has(route))
}

function named({ method, path }: Pick<Route, 'method' | 'path'>): string {
  return `${method} ${path}`
}

const { fleet } = useFleet()
let built: ReturnType<typeof buildApp>
let server: ReturnType<typeof serve>
let url: string

beforeAll(async () => {
  // As many wrong tokens come from here as there are routes.
  built = buildApp(fleet(), { tokens: TOKENS, rateLimit: 'off', wrongTokens: 'off' })
  await new Promise<void>((resolve) => {
    server = serve({ fetch: built.app.fetch, port: 0, hostname: '127.0.0.1', overrideGlobalObjects: false }, () =>
      resolve(),
    )
  })
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
})
afterAll(() => new Promise((resolve) => server.close(resolve)))

async function statusOf({ method, path }: { method: string; path: string }, secret?: string): Promise<number> {
  const headers: Record<string, string> = secret === undefined ? {} : { authorization: `Bearer ${secret}` }
  const response = await fetch(`${url}${sampleOf(path)}`, { method, headers, redirect: 'manual' })
  // A stream would never end; what is read to its end leaves the connection to the next one.
  await (response.ok ? response.body?.cancel() : response.text())
  return response.status
}

test('every route says who may use it, and anybody only what is listed here', () => {
  const { app, routes } = built
  expect(undeclared(app, routes)).toEqual([])
  expect(routes.all.length).toBeGreaterThan(10)
  expect(
    routes.all
      .filter(({ need }) => need === 'anybody')
      .map(named)
      .filter((route) => !ANYBODY.includes(route)),
  ).toEqual([])
})

test('nobody gets in anywhere without a token, with a wrong one, or with one that may do less', async () => {
  const letIn: string[] = []
  const expectStatus = async (
    route: { method: string; path: string },
    status: number,
    who: string,
    secret?: string,
  ) => {
    const answered = await statusOf(route, secret)
    if (answered !== status) letIn.push(`${route.method} ${route.path} answers ${who} with ${answered}`)
  }
  const walk = async (route: Route) => {
    const { need } = route
    if (need === 'anybody') return
    const asked = route.method === 'GET' ? [route, { ...route, method: 'HEAD' }] : [route]
    for (const each of asked) {
      await expectStatus(each, 401, 'nobody')
      await expectStatus(each, 401, 'a wrong token', WRONG)
      for (const scope of SCOPES.slice(0, SCOPES.indexOf(need))) await expectStatus(each, 403, scope, SECRETS[scope])
    }
  }
  await Promise.all(built.routes.all.map(walk))
  expect(letIn).toEqual([])
})

test('whoever may do more may also read', async () => {
  for (const route of built.routes.all.filter(({ method, need }) => method === 'GET' && need === 'read'))
    for (const scope of SCOPES) expect([401, 403], named(route)).not.toContain(await statusOf(route, SECRETS[scope]))
})

describe('a route that was added in another way', () => {
  const open = () => {
    const { app, routes } = buildApp(fleet(), { tokens: TOKENS })
    app.get('/back-door', (c) => c.text('come in'))
    app.all('/side-door', (c) => c.text('come in'))
    const ask = async (path: string, secret?: string) =>
      app.request(path, secret === undefined ? {} : { headers: { authorization: `Bearer ${secret}` } })
    return { app, routes, ask }
  }

  test('is seen, and is answered to nobody', async () => {
    const { app, routes, ask } = open()
    expect(undeclared(app, routes)).toEqual(['GET /back-door'])
    for (const path of ['/back-door', '/side-door']) {
      expect((await ask(path)).status).toBe(401)
      expect((await ask(path, SECRETS.admin)).status).toBe(404)
    }
  })
})
