import fc from 'fast-check'
import { sql } from 'kysely'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ENDPOINTS } from '../../src/web/api/endpoints.ts'
import { BODY_BYTES_MAX } from '../../src/web/body-limit.ts'
import { check, PROPERTY_TIMEOUT_MS } from '../support/property.ts'
import { isThorough } from '../support/thorough.ts'
import { createWorld, type World } from '../support/world.ts'
import { checkAnswer, siteOf } from './api/setup.ts'

/**
 * Whatever is sent to whichever route: it is refused with a problem, nothing breaks, and nothing is written. There is a sandbox that
 * sleeps, one that runs and an execution that has ended, so that what is refused is refused for what it is, and not for its id.
 */

let world: World
let site: ReturnType<typeof siteOf>
let ids: { sandbox: string; operation: string; execution: string }
let before: Record<string, unknown>
beforeAll(async () => {
  world = await createWorld('postgres')
  const worker = await world.startWorker()
  site = siteOf(world.fleet)
  const { id } = await world.running()
  const { operation } = await world.fleet.pause(id, { wait: '30s' })
  const { execution } = await world.fleet.execute(id, { command: ['x'] })
  await world.fleet.cancel(execution.id, { wait: '30s' })
  // Nobody is left who writes anything but what is asked for here.
  await worker.stop()
  ids = { sandbox: id, operation: operation.id, execution: execution.id }
  before = await written()
})
afterAll(() => world.end())

/** How many rows every table has, of the truth and of the queues, and what wrote any of them last. What a process counts is its own. */
async function written(): Promise<Record<string, unknown>> {
  const { rows: tables } = await sql<{ schema: string; name: string }>`
    select schemaname as schema, tablename as name from pg_tables where schemaname in ('sandman', 'bullmq')
    and tablename not in ('tallies', 'checks', 'violations')`.execute(world.db)
  expect(tables.length).toBeGreaterThan(12)
  const found: Record<string, unknown> = {}
  for (const { schema, name } of tables) {
    const { rows } = await sql`
      select count(*) as rows, max(xmin::text::bigint) as newest from ${sql.table(`${schema}.${name}`)}`.execute(
      world.db,
    )
    found[`${schema}.${name}`] = rows[0]
  }
  return found
}

const posts = ENDPOINTS.filter(({ method }) => method === 'POST')

/** With ids of things that there are. */
function pathOf(path: string): string {
  const kind = path.startsWith('/v1/executions')
    ? 'execution'
    : path.startsWith('/v1/operations')
      ? 'operation'
      : 'sandbox'
  return path.replace(':id', ids[kind])
}

type Sent = { body?: string | Uint8Array; headers?: Record<string, string> }

async function send(method: string, path: string, { body, headers = {} }: Sent = {}): Promise<number> {
  const type = body === undefined ? {} : { 'content-type': 'application/json' }
  const response = await site.fetch(path, {
    method,
    ...(body !== undefined && { body: body as string }),
    headers: { ...type, ...headers },
  })
  const told = { status: response.status, headers: response.headers, body: await response.json() }
  if (told.status < 400 || told.status >= 500) expect.fail(`${method} ${path} is answered with ${told.status}`)
  checkAnswer(method, path, told)
  return told.status
}

async function expectUnwritten(): Promise<void> {
  expect(await written()).toEqual(before)
}

const SECRET = 'do-not-repeat-this'
const deep = (levels: number, inside = '1') => `${'['.repeat(levels)}${inside}${']'.repeat(levels)}`

describe('on every route that takes a body', () => {
  test('one that is too large is refused, with its length or without', async () => {
    const huge = ' '.repeat(BODY_BYTES_MAX + 1)
    const chunks = () => new Response(huge).body as ReadableStream
    for (const { path } of posts) {
      expect(await send('POST', pathOf(path), { body: huge })).toBe(413)
      const streamed = {
        method: 'POST',
        body: chunks(),
        duplex: 'half',
        headers: { 'content-type': 'application/json' },
      }
      expect(
        (await site.fetch(pathOf(path), streamed as RequestInit & { headers: Record<string, string> })).status,
      ).toBe(413)
    }
    await expectUnwritten()
  })

  test('one that is not JSON is refused, and not repeated', async () => {
    const malformed = [
      '{',
      '{"backend":}',
      `{"a":"${SECRET}`,
      "{'a':1}",
      '{"a":1,}',
      'NaN',
      ' ',
      'undefined',
      '\u0000',
      Buffer.from([0x7b, 0xff, 0xfe, 0x7d]),
      Buffer.from('{"a":"ü"}', 'latin1'),
      Buffer.from('{"backend":"test"}', 'utf16le'),
      deep(100_000, ''),
      '['.repeat(100_000),
    ]
    for (const { path } of posts)
      for (const body of malformed.slice(0, -2)) expect(await send('POST', pathOf(path), { body })).toBe(400)
    for (const { path } of posts) for (const body of malformed.slice(-2)) await send('POST', pathOf(path), { body })
    const told = await site.fetch('/v1/sandboxes', {
      method: 'POST',
      body: `{"a":"${SECRET}`,
      headers: { 'content-type': 'application/json' },
    })
    expect(await told.text()).not.toContain(SECRET)
    await expectUnwritten()
  })

  test('one of another type is refused', async () => {
    const types = [
      'text/plain',
      'application/x-www-form-urlencoded',
      'multipart/form-data; boundary=x',
      'application/xml',
      'text/json',
      'application/json; charset=utf-16',
      'application/jsonx',
      '',
    ]
    for (const { path } of posts) {
      for (const type of types)
        expect(await send('POST', pathOf(path), { body: '{}', headers: { 'content-type': type } })).toBe(415)
      expect(await send('POST', pathOf(path), { body: '{}', headers: { 'content-encoding': 'gzip' } })).toBe(415)
    }
    await expectUnwritten()
  })

  test('one that is JSON and no request is refused, and its fields are named', async () => {
    const bodies = [
      'null',
      '1',
      '"x"',
      '[]',
      '[{}]',
      'true',
      '{"surprise":1}',
      '{"__proto__":{"polluted":1}}',
      '{"backend":"test","metadata":{"__proto__":{"polluted":1}}}',
      '{"backend":"test","agent":{"command":["x"],"env":{"__proto__":"x"}}}',
      '{"constructor":{"prototype":{}}}',
      '{"wait":"30s"}',
      '{"signal":{}}',
      '{"idempotency_key":"x"}',
      '{"idempotencyKey":"x"}',
      `{"a":${deep(1_000)}}`,
    ]
    for (const { path } of posts)
      for (const body of bodies) expect(await send('POST', pathOf(path), { body }), body).toBe(422)
    expect(({} as { polluted?: number }).polluted).toBeUndefined()
    await expectUnwritten()
  })

  test('every field refuses what is of another type, too large, or cannot be kept', async () => {
    const wrong = [
      0,
      -1,
      1e308,
      1.5,
      true,
      null,
      '',
      [],
      {},
      [[]],
      { a: 1 },
      'x'.repeat(200_000),
      '\u0000',
      '\ud800',
      "'; drop table sandman.sandboxes; --",
    ]
    let tried = 0
    for (const { path, body } of posts) {
      for (const [at, shown] of body ? fieldsOf(body.schema) : []) {
        for (const value of wrong) {
          const whole = { ...(path === '/v1/sandboxes' && { backend: 'test' }), ...nest(at, value) }
          // Some of these are right for some fields; such a one is not sent.
          if (body?.schema.safeParse(whole).success) continue
          tried++
          expect(await send('POST', pathOf(path), { body: JSON.stringify(whole) }), `${path} ${shown}`).toBe(422)
        }
      }
    }
    expect(tried).toBeGreaterThan(300)
    await expectUnwritten()
  })
})

/** Every field of a body, with the way to it. */
function* fieldsOf(schema: unknown, at: string[] = []): Generator<[string[], string], void> {
  const { options, shape, unwrap } = schema as {
    options?: unknown[]
    shape?: Record<string, unknown>
    unwrap?(): unknown
  }
  if (options && !shape) for (const option of options) yield* fieldsOf(option, at)
  else if (shape)
    for (const [name, field] of Object.entries(shape)) {
      yield [[...at, name], [...at, name].join('.')]
      yield* fieldsOf(field, [...at, name])
    }
  else if (unwrap) yield* fieldsOf(unwrap.call(schema), at)
}

function nest([first = '', ...rest]: string[], value: unknown): Record<string, unknown> {
  return { [first]: rest.length === 0 ? value : nest(rest, value) }
}

describe('on every route', () => {
  test('an id that is none is not found, however it is written', async () => {
    const nobody = [
      'x',
      '%00',
      '%ff',
      '%',
      'a%2Fb',
      '..%2f..%2fetc',
      '%E0%A4%A',
      "';--",
      '%27%20or%201%3D1',
      'sbx_',
      `sbx_${'g'.repeat(26)}`,
      `SBX_${'0'.repeat(26)}`,
      `sbx_${'0'.repeat(26)}%0A`,
      '__proto__',
      'constructor',
      '%F0%9F%98%80',
      'x'.repeat(5_000),
      '*',
      ':id',
      '{id}',
      '%C3%28',
      '%ed%a0%80',
      '$(id)',
    ]
    for (const { method, path } of ENDPOINTS.filter(({ path }) => path.includes(':id')))
      for (const id of nobody) expect(await send(method, path.replace(':id', id)), id).toBe(404)
    await expectUnwritten()
  })

  test('a query that says nothing sensible is refused, and its field is named', async () => {
    const queries = [
      'surprise=1',
      '=1',
      '&&x',
      '__proto__=1',
      'constructor=1',
      '%00=1',
      'wait[]=1',
      '%ff=%ff',
      'wait.x=1',
      'cursor.x=1',
      'metadata=1',
      'toString=',
    ]
    const wrong = [
      '',
      '-1',
      '1e9',
      'NaN',
      '30',
      '30 s',
      '999999999999999999h',
      '11m',
      '%00',
      '%ff',
      "'",
      '30s;',
      '1s,2s',
      '0x10',
    ]
    for (const { method, path, query } of ENDPOINTS) {
      for (const each of queries) expect(await send(method, `${pathOf(path)}?${each}`), each).toBe(422)
      const names = (query?.parameters ?? []).map(({ name }) => name).filter((name) => !name.includes('*'))
      for (const name of names) {
        for (const value of wrong) {
          const given = new URLSearchParams(`${name}=${value}`)
          if (isFine(query, given)) continue
          expect(await send(method, `${pathOf(path)}?${name}=${value}`), `${name}=${value}`).toBe(422)
        }
        expect(await send(method, `${pathOf(path)}?${name}=1&${name}=1`)).toBe(422)
      }
    }
    await expectUnwritten()
  })

  test('a key that cannot be kept is refused, and so is a place in a stream that is none', async () => {
    const keyed = ENDPOINTS.filter(({ isKeyed }) => isKeyed)
    expect(keyed.length).toBeGreaterThan(5)
    for (const { method, path } of keyed)
      for (const key of ['', 'x'.repeat(256)]) {
        const body = path === '/v1/sandboxes' ? '{"backend":"test"}' : '{}'
        expect(await send(method, pathOf(path), { body, headers: { 'idempotency-key': key } })).toBe(422)
      }
    await expectUnwritten()
  })

  test('a method that it does not have is refused', async () => {
    for (const path of new Set(ENDPOINTS.map(({ path }) => path))) {
      const known = ENDPOINTS.filter((endpoint) => endpoint.path === path).map(({ method }) => method as string)
      for (const method of ['GET', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'].filter((each) => !known.includes(each)))
        expect(await send(method, pathOf(path))).toBe(405)
      expect(await send('PROPFIND', pathOf(path))).toBe(404)
    }
    await expectUnwritten()
  })
})

function isFine(query: (typeof ENDPOINTS)[number]['query'], given: URLSearchParams): boolean {
  try {
    query?.read(given)
    return true
  } catch {
    return false
  }
}

/**
 * Random bodies: anything, JSON of anything, and requests of which a part is anything. They are others in every run, so that what one
 * run leaves out another one tries.
 */
const RUNS = isThorough ? 10_000 : 2_000
const word = fc.oneof(
  fc.constantFrom(
    'backend',
    'adopt',
    'metadata',
    'ttl',
    'agent',
    'wake',
    'command',
    'env',
    'idle',
    'if_lost',
    'name',
    'dry_run',
    '__proto__',
    'limits',
    'from',
    'deadline',
    'state',
  ),
  fc.string({ maxLength: 8 }),
)
const value = fc.letrec((tie) => ({
  any: fc.oneof(
    { maxDepth: 3, withCrossShrink: true },
    fc.constantFrom(
      'test',
      'kill',
      'respawn',
      'wait',
      '30s',
      null,
      true,
      -1,
      0,
      2 ** 53,
      1e300,
      '\u0000',
      '\ud800',
      '',
    ),
    fc.string({ unit: 'binary', maxLength: 12 }),
    fc.double(),
    fc.array(tie('any'), { maxLength: 3 }),
    fc.array(fc.tuple(word, tie('any')), { maxLength: 4 }).map(toObject),
  ),
})).any

const body = fc.oneof(
  { weight: 1, arbitrary: fc.uint8Array({ maxLength: 64 }) },
  { weight: 1, arbitrary: fc.string({ unit: 'binary', maxLength: 64 }) },
  { weight: 1, arbitrary: fc.json({ maxDepth: 4 }) },
  { weight: 3, arbitrary: value.map((each) => JSON.stringify(each)) },
  {
    weight: 4,
    arbitrary: fc
      .array(fc.tuple(word, value), { maxLength: 5 })
      .map((pairs) => JSON.stringify(toObject([['backend', 'test'], ...pairs]))),
  },
)

function toObject(pairs: [string, unknown][]): object {
  return Object.fromEntries(pairs)
}

/** What would be accepted is left out, and counted: the others have to be all that there are. */
function isRequest(endpoint: (typeof posts)[number], sent: string | Uint8Array): boolean {
  if (sent.length === 0) return true
  try {
    const given: unknown = JSON.parse(typeof sent === 'string' ? sent : Buffer.from(sent).toString())
    if (endpoint.body) endpoint.body.read(given)
    else if (typeof given !== 'object' || given === null || Object.keys(given).length > 0) return false
    return true
  } catch {
    return false
  }
}

test(
  `of ${RUNS} random bodies, none is accepted that is no request, and none breaks anything`,
  async () => {
    let refused = 0
    let left = 0
    const statuses = new Map<number, number>()
    const property = fc.asyncProperty(
      fc.record({ nth: fc.nat(posts.length - 1), sent: body }),
      async ({ nth, sent }) => {
        const endpoint = posts[nth] as (typeof posts)[number]
        if (isRequest(endpoint, sent)) {
          left++
          return
        }
        const status = await send('POST', pathOf(endpoint.path), { body: sent })
        expect([400, 422]).toContain(status)
        statuses.set(status, (statuses.get(status) ?? 0) + 1)
        refused++
      },
    )
    while (refused < RUNS) await check(property, { runs: Math.min(2_000, RUNS - refused) || 1 })
    expect(refused).toBeGreaterThanOrEqual(RUNS)
    expect(left).toBeLessThan(RUNS / 4)
    // Both kinds of nonsense were tried, and in numbers.
    for (const status of [400, 422]) expect(statuses.get(status)).toBeGreaterThan(RUNS / 20)
    await expectUnwritten()
  },
  PROPERTY_TIMEOUT_MS,
)
