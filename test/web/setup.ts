import { afterAll, beforeAll } from 'vitest'
import type { Token } from '../../src/config-values.ts'
import { createFleet, type Fleet } from '../../src/index.ts'
import { type AppOptions, buildApp } from '../../src/web/app.ts'
import type { Routes } from '../../src/web/routes.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { RecordedEvents } from '../support/events.ts'
import { HERE } from '../support/here.ts'
import { uniqueFleet } from '../support/stores.ts'

export const SECRETS = {
  read: 'reader-reader-reader',
  operate: 'operator-operator-op',
  admin: 'admin-admin-admin-admin',
} as const

export const TOKENS: Token[] = [
  { name: 'rita', scope: 'read', secret: SECRETS.read },
  { name: 'otto', scope: 'operate', secret: SECRETS.operate },
  { name: 'anna', scope: 'admin', secret: SECRETS.admin },
]

export const WRONG = 'wrong-wrong-wrong-wrong'

export type Ask = (path: string, init?: RequestInit & { headers?: Record<string, string> }) => Promise<Response>
type Site = { ask: Ask; routes: Routes; events: RecordedEvents }

/** A fleet that all tests of a file ask, through sites of their own. */
export function useFleet(): { fleet(): Fleet; open(options?: AppOptions, also?: (routes: Routes) => void): Site } {
  let database: TestDatabase
  let fleet: Fleet
  beforeAll(async () => {
    database = await createDatabase()
    fleet = createFleet({ databaseUrl: database.url, fleet: uniqueFleet() })
  })
  afterAll(async () => {
    await fleet.close()
    await database.drop()
  })
  return {
    fleet: () => fleet,
    open(options = {}, also) {
      const events = new RecordedEvents()
      const { app, routes } = buildApp(fleet, { events, ...options })
      also?.(routes)
      const ask: Ask = async (path, { headers, ...init } = {}) =>
        app.request(`http://127.0.0.1${path}`, { ...init, headers: { host: '127.0.0.1', ...headers } }, HERE)
      return { ask, routes, events }
    },
  }
}

export function bearer(secret: string): { headers: Record<string, string> } {
  return { headers: { authorization: `Bearer ${secret}` } }
}

export const FROM_HERE = { 'sec-fetch-site': 'same-origin' }

/** What a browser sends when its user submits the form of the login. */
export function form(fields: Record<string, string>, headers: Record<string, string> = FROM_HERE) {
  return {
    method: 'POST',
    body: new URLSearchParams(fields).toString(),
    headers: { 'content-type': 'application/x-www-form-urlencoded', ...headers },
  }
}

/** The cookie of whoever has logged in with this secret. */
export async function logIn(ask: Ask, secret: string): Promise<string> {
  const answer = await ask('/login', form({ token: secret }))
  return (answer.headers.getSetCookie()[0] ?? '').replace(/;.*/, '')
}
