import { spawn } from 'node:child_process'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createStoreHome, type StoreHome } from '../support/stores.ts'

const EXAMPLES = path.resolve(import.meta.dirname, '../../examples')
const SECRET = 'a-secret-of-the-example'

let home: StoreHome
beforeAll(async () => {
  home = await createStoreHome('postgres')
})
afterAll(() => home.drop())

type Ask = (path: string, init?: { method?: string; body?: string; token?: string }) => Promise<Response>

/** The example as it stands, in a process of its own. */
function run(args: string[]) {
  const { PATH, HOME, NODE_COMPILE_CACHE } = process.env
  const child = spawn(process.execPath, args, {
    env: { PATH, HOME, NODE_COMPILE_CACHE, DATABASE_URL: home.databaseUrl, SANDMAN_SECRET: SECRET, PORT: '0' },
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  let complaints = ''
  child.stderr.on('data', (text) => {
    complaints += text
  })
  const ended = new Promise<{ code: number | null; complaints: string }>((resolve) =>
    child.once('close', (code) => resolve({ code, complaints })),
  )
  onTestFinished(async () => {
    child.kill('SIGKILL')
    await ended
  })
  return { child, ended, lines: createInterface(child.stdout)[Symbol.asyncIterator]() }
}

const headersOf = (token?: string) => ({
  'content-type': 'application/json',
  ...(token !== undefined && { authorization: `Bearer ${token}` }),
})

/** What every app that mounts it may expect. */
async function expectMounted(ask: Ask, base: string): Promise<void> {
  expect((await ask(`${base}/healthz`)).status).toBe(200)
  expect((await ask(`${base}/v1`)).status).toBe(401)
  expect((await ask(`${base}/v1`, { token: 'wrong-wrong-wrong-wrong' })).status).toBe(401)
  const body = JSON.stringify({ backend: 'local', metadata: { from: base } })
  const made = await ask(`${base}/v1/sandboxes`, { method: 'POST', body, token: SECRET })
  expect(made.status).toBe(202)
  const { operation, sandbox } = (await made.json()) as { operation: { id: string }; sandbox: { id: string } }
  const location = new URL(made.headers.get('location') as string, `http://x${base}/v1/sandboxes`).pathname
  expect(location).toBe(`${base}/v1/operations/${operation.id}`)
  expect(await (await ask(location, { token: SECRET })).json()).toMatchObject({ operation: { id: operation.id } })
  const listed = await ask(`${base}/v1/sandboxes?limit=1`, { token: SECRET })
  expect(await listed.json()).toMatchObject({ items: [{ id: sandbox.id, metadata: { from: base } }] })
  expect(listed.headers.get('link')).toContain('rel="next"')
  const refused = await ask(`${base}/v1/sandboxes`, { method: 'POST', body: '{"backend":5}', token: SECRET })
  expect(refused.status).toBe(422)
  expect(refused.headers.get('content-type')).toBe('application/problem+json')
  expect((await ask(`${base}/v1/sweep`, { method: 'POST', token: SECRET })).status).toBe(403)
  const { servers } = (await (await ask(`${base}/openapi.json`, { token: SECRET })).json()) as {
    servers: { url: string }[]
  }
  expect(servers).toEqual([{ url: '.' }])
}

describe.each(['express', 'hono'])('the example for %s', (name) => {
  test('serves Sandman next to its own routes, and stops when it is told to', async () => {
    const { child, ended, lines } = run([path.join(EXAMPLES, name, 'server.ts')])
    const { value: url } = await lines.next()
    const ask: Ask = (at, { token, ...init } = {}) => fetch(`${url}${at}`, { ...init, headers: headersOf(token) })
    await expectMounted(ask, '/sandman')
    const own = await ask('/threads', { method: 'POST' })
    expect(own.status).toBe(201)
    const { thread } = (await own.json()) as { thread: string }
    expect((await ask(`/sandman/v1/sandboxes/${thread}`, { token: SECRET })).status).toBe(200)
    child.kill('SIGTERM')
    expect(await ended).toEqual({ code: 0, complaints: '' })
  })
})

test('the example for Next.js answers with what its route exports', async () => {
  const route = pathToFileURL(path.join(EXAMPLES, 'nextjs/app/api/sandman/[...path]/route.ts')).href
  // As Next.js does it: the route is loaded, and each of its functions is given requests of its method.
  const script = `
    import { createServer } from 'node:http'
    const route = await import(${JSON.stringify(route)})
    const server = createServer(async (incoming, outgoing) => {
      const chunks = []
      for await (const chunk of incoming) chunks.push(chunk)
      const { method, headers } = incoming
      const body = chunks.length > 0 ? { body: Buffer.concat(chunks) } : {}
      const answer = await route[method](new Request('http://' + headers.host + incoming.url, { method, headers, ...body }))
      outgoing.writeHead(answer.status, [...answer.headers].flat())
      outgoing.end(Buffer.from(await answer.arrayBuffer()))
    }).listen(0, '127.0.0.1', () => console.log('http://127.0.0.1:' + server.address().port))`
  const { lines } = run(['--input-type=module', '--eval', script])
  const { value: url } = await lines.next()
  const ask: Ask = (at, { token, ...init } = {}) => fetch(`${url}${at}`, { ...init, headers: headersOf(token) })
  await expectMounted(ask, '/api/sandman')
})
