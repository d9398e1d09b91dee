import { Hono } from 'hono'
import { expect, test } from 'vitest'
import { z } from 'zod'
import { printDuration } from '../../../src/duration.ts'
import { ListRequest, PauseRequest, SpawnRequest, SweepRequest, WaitRequest } from '../../../src/fleet/requests.ts'
import { ERRORS, FAILURES, type Fleet } from '../../../src/index.ts'
import { describes, encode } from '../../../src/web/api/answer-schema.ts'
import { ENDPOINTS } from '../../../src/web/api/endpoints.ts'
import { openApi } from '../../../src/web/api/openapi.ts'
import { bodyPart } from '../../../src/web/api/parts.ts'
import { queryReader } from '../../../src/web/api/query.ts'
import { reader } from '../../../src/web/api/request-schema.ts'
import { serveApi } from '../../../src/web/api/routes.ts'
import { Routes, type WebEnv } from '../../../src/web/routes.ts'
import { ERROR_STATUSES, FAILURE_STATUSES } from '../../../src/web/statuses.ts'
import { siteOf } from './setup.ts'

/** Nobody is asked anything here. */
const nobody = { name: 'nobody' } as Fleet

/** Every object in the document, with where it is. */
function* objectsIn(value: unknown, at = '#'): Generator<[string, Record<string, unknown>], void> {
  if (typeof value !== 'object' || value === null) return
  yield [at, value as Record<string, unknown>]
  for (const [name, inner] of Object.entries(value)) yield* objectsIn(inner, `${at}/${name}`)
}

function follow(document: unknown, ref: string): unknown {
  const steps = ref.replace(/^#\//, '').split('/')
  return steps.reduce<unknown>((at, step) => (at as Record<string, unknown> | undefined)?.[step], document)
}

test('every route below /v1 is in the document, with its scope, or is a method that its path does not have', async () => {
  const routes = new Routes(new Hono<WebEnv>())
  serveApi(routes, nobody)
  const below = routes.all.filter(({ path }) => path.startsWith('/v1'))
  const { paths } = openApi(nobody)
  const site = siteOf(nobody)
  for (const { method, path, need } of below) {
    const documented = paths[path.replace(/:(\w+)/g, '{$1}')]?.[method.toLowerCase()]
    if (documented) expect([path, documented['x-scope']]).toEqual([path, need])
    else expect((await site.fetch(path, { method })).status).toBe(405)
  }
  const documented = Object.values(paths).flatMap((methods) => Object.values(methods))
  expect(documented).toHaveLength(ENDPOINTS.length)
  expect(new Set(documented.map(({ operationId }) => operationId)).size).toBe(ENDPOINTS.length)
})

test('the document is whole: every reference leads somewhere, every parameter of a path is named', () => {
  const document = openApi(nobody)
  expect(document.openapi).toBe('3.1.0')
  const refs = [...objectsIn(document)].flatMap(([at, { $ref }]) => (typeof $ref === 'string' ? [[at, $ref]] : []))
  expect(refs.length).toBeGreaterThan(50)
  for (const [at = '', ref = ''] of refs) expect(follow(document, ref), `${at} ${ref}`).toBeTypeOf('object')
  for (const [path, methods] of Object.entries(document.paths)) {
    const named = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name)
    for (const operation of Object.values(methods)) {
      const inPath = operation.parameters.filter((parameter) => parameter.in === 'path').map(({ name }) => name)
      expect(inPath).toEqual(named)
      const names = operation.parameters.map(({ name, in: place }) => `${place} ${name}`)
      expect(new Set(names).size).toBe(names.length)
      for (const [status, response] of Object.entries(operation.responses)) {
        expect(status).toMatch(/^[245]\d\d$/)
        expect(response.description).not.toBe('')
      }
      for (const scheme of operation.security.flatMap((each) => Object.keys(each)))
        expect(document.components.securitySchemes).toHaveProperty(scheme)
    }
  }
  // Whatever a schema is for a tool that reads it: nothing in it is left open by accident.
  for (const [at, schema] of objectsIn(document.components.schemas)) {
    const isField = /\/properties\/[^/]+$/.test(at)
    if (isField) expect([at, Object.keys(schema)]).not.toEqual([at, []])
  }
})

test('there is something to say of every field that can be sent', () => {
  const wordless: string[] = []
  for (const [path, methods] of Object.entries(openApi(nobody).paths)) {
    for (const [method, { parameters, requestBody }] of Object.entries(methods)) {
      for (const { name, in: place, description } of parameters)
        if (place !== 'path' && !description) wordless.push(`${method} ${path} ?${name}`)
      for (const [at, schema] of objectsIn(requestBody))
        if (/\/properties\/[^/]+$/.test(at) && !schema.description) wordless.push(`${method} ${path} ${at}`)
    }
  }
  expect(wordless).toEqual([])
})

test('the document and the reference are served, and the reference needs nothing from elsewhere', async () => {
  const site = siteOf(nobody)
  const served = await site.fetch('/openapi.json')
  expect(await served.json()).toEqual(JSON.parse(JSON.stringify(openApi(nobody))))
  const page = await (await site.fetch('/reference')).text()
  for (const { method, path } of ENDPOINTS)
    expect(page).toContain(`<h2><code>${method} ${path.replaceAll(':id', '{id}')}</code></h2>`)
  expect(page).toContain('href="/assets/console.css?')
  expect(page).not.toMatch(/<script(?! src="\/)|<style| style=|https?:/)
  expect(page).not.toMatch(/[a-z]\.[A-Z]/) // between two sentences there is a space
  const ids = new Set([...page.matchAll(/ id="([^"]+)"/g)].map(([, id]) => id))
  for (const [, target] of page.matchAll(/href="#([^"]+)"/g)) expect(ids).toContain(target)
})

test('every way to fail has a status', () => {
  expect(Object.keys(FAILURE_STATUSES).sort()).toEqual(Object.keys(FAILURES).sort())
  expect(Object.keys(ERROR_STATUSES).sort()).toEqual(Object.keys(ERRORS).sort())
})

test('a request on the wire is the library’s, under other names', () => {
  const pause = reader(bodyPart(PauseRequest))
  expect(pause.read({ if_unsupported: 'kill', if_busy: 'wait' })).toEqual({ ifUnsupported: 'kill', ifBusy: 'wait' })
  expect(() => pause.read({ ifBusy: 'wait' })).toThrow('ifBusy: there is no such field')
  expect(() => pause.read({ wait: '30s' })).toThrow('wait: there is no such field')
  const spawn = reader(bodyPart(SpawnRequest))
  const free = { someName: { inner_name: 1, innerName: 2 } }
  expect(
    spawn.read({
      backend: 'x',
      read_only_root: true,
      ttl: { idle: '15m', if_unsupported: 'kill' },
      wake: { preview_port: 80 },
      metadata: free,
      agent: { command: ['x'], env: { SOME_name: 'y' } },
    }),
  ).toEqual({
    backend: 'x',
    readOnlyRoot: true,
    ttl: { idle: 900_000, ifUnsupported: 'kill' },
    wake: { previewPort: 80 },
    metadata: free,
    agent: { command: ['x'], env: { SOME_name: 'y' } },
  })
  expect(() => spawn.read({ backend: 'x', ttl: { idle: 900_000 } })).toThrow('ttl.idle: must be a duration such as')
  expect(reader(bodyPart(SweepRequest)).read({})).toEqual({ dryRun: false, believe: false })
})

test('what stands behind the question mark is read as what it is meant to be', () => {
  const list = queryReader(
    z.strictObject({ ...ListRequest.shape, metadata: z.record(z.string(), z.string()).optional() }),
  )
  const query = (text: string) => list.read(new URLSearchParams(text))
  expect(query('limit=7&metadata.user=u1&metadata.a.b=%26')).toMatchObject({
    limit: 7,
    metadata: { user: 'u1', 'a.b': '&' },
  })
  expect(query('')).toMatchObject({ limit: 100 })
  for (const wrong of ['metadata=x', 'metadata.=x', 'metadata.a=1&metadata.a=2', 'user=u1', 'limit.a=1'])
    expect(() => query(wrong), wrong).toThrow('The request cannot be read')
  expect(list.parameters.map(({ name }) => name)).toContain('metadata.*')
  expect(queryReader(z.strictObject({ wait: WaitRequest.shape.wait })).read(new URLSearchParams('wait=90s'))).toEqual({
    wait: 90_000,
  })
})

test('an answer is the library’s value, under other names; what an app has named keeps its names', () => {
  const schema = z.strictObject({
    some_time: z.string().nullable(),
    free: z.record(z.string(), z.unknown()),
    list_of: z.array(z.strictObject({ inner_name: z.int() })),
  })
  const value = { someTime: new Date(0), free: { someName: { x_y: 1 } }, listOf: [{ innerName: 1, secret: 2 }] }
  expect(encode(schema, value)).toEqual({
    some_time: '1970-01-01T00:00:00.000Z',
    free: { someName: { x_y: 1 } },
    list_of: [{ inner_name: 1 }],
  })
})

test('a schema that lacks a field of its value, or has one too many, does not compile', () => {
  type Value = { someName: string; at: Date }
  describes<Value>()(z.strictObject({ some_name: z.string(), at: z.string() }))
  // @ts-expect-error: `at` is missing
  describes<Value>()(z.strictObject({ some_name: z.string() }))
  // @ts-expect-error: there is no `other`
  describes<Value>()(z.strictObject({ some_name: z.string(), at: z.string(), other: z.string().optional() }))
  // @ts-expect-error: it is no number
  describes<Value>()(z.strictObject({ some_name: z.number(), at: z.string() }))
})

test('durations are said as they would be asked for', () => {
  expect([0, 1, 1_000, 90_000, 900_000, 86_400_000, 3_601_000].map(printDuration)).toEqual([
    '0ms',
    '1ms',
    '1s',
    '90s',
    '15m',
    '24h',
    '3601s',
  ])
})
