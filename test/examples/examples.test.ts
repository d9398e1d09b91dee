import { once } from 'node:events'
import net from 'node:net'
import path from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { housekeeper } from '../support/housekeeper.ts'
import { createWorld, type World } from '../support/world.ts'
import { findPython, tryPython } from './python.ts'
import { run } from './run.ts'
import { asking, driving, expectMounted, SECRET, walkLostPreview, walkPreview } from './walk.ts'

/** One fleet for all of the examples, of the name that they mean. */
let world: World
beforeAll(async () => {
  world = await createWorld('postgres', { fleet: 'default' })
  await world.startWorker()
})
afterAll(async () => {
  await world.expectInvariants()
  await world.end()
})

const env = () => ({ DATABASE_URL: world.home.databaseUrl, SANDMAN_SECRET: SECRET, PORT: '0' })
const node = (file: string, more = {}) => run(process.execPath, [file], { ...env(), ...more })
const LISTENS = /(http:\/\/127\.0\.0\.1:\d+)/

describe.each([
  { name: 'express', walk: walkLostPreview },
  { name: 'hono', walk: walkPreview },
])('the example for $name', ({ name, walk }) => {
  test('has previews that sleep, serves Sandman beside them, and stops in order when it is told to', async () => {
    const { child, ended, says } = node(`${name}/server.ts`)
    const url = await says(LISTENS)
    await expectMounted(asking(url), '/sandman')
    const id = await walk(world, driving(url), `made-with-${name}`)

    const { execution } = await world.fleet.execute(id, { command: ['sh', '-c', 'echo begun; exec sleep 100'] })
    const output = await asking(url)(`/sandman/v1/executions/${execution.id}/output`, { token: SECRET })
    const reader = (output.body as ReadableStream<Uint8Array>).getReader()
    expect(Buffer.from((await reader.read()).value as Uint8Array).toString()).toContain('begun')
    child.kill('SIGTERM')
    expect(await reader.read()).toEqual({ done: true, value: undefined })
    expect(await ended).toMatchObject({ code: 0, complaints: '' })
  })

  test('says in one sentence that its port is taken, and what to do', async ({ onTestFinished }) => {
    const holder = net.createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void holder.close())
    await once(holder, 'listening')
    const { port } = holder.address() as net.AddressInfo
    expect(await node(`${name}/server.ts`, { PORT: String(port) }).ended).toEqual({
      code: 1,
      printed: '',
      complaints: `Port ${port} is taken by another program: stop it, or choose another port (PORT=${port + 1}).\n`,
    })
  })
})

test('the example for Next.js answers with what its routes export', async () => {
  const { says } = node(path.join(import.meta.dirname, 'next-server.mjs'))
  const url = await says(LISTENS)
  await expectMounted(asking(url), '/api/sandman')
  const console = await asking(url)('/api/sandman', { token: SECRET })
  expect(await console.text()).toContain('<title>')
  await walkPreview(world, driving(`${url}/api`), 'made-with-next')
})

test('the script goes through one life of a sandbox, to the end that the reaper makes', async () => {
  const { ended, says } = node('script/night.ts')
  const id = await says(/(sbx_\w+) is running/)
  await says(/nobody comes back/)
  const keeper = housekeeper(world)
  keeper.advance(60_000)
  await keeper.reap()
  const { code, printed, complaints } = await ended
  expect({ code, complaints }).toEqual({ code: 0, complaints: '' })
  const [, ...lines] = printed.split('\n')
  expect(lines.slice(0, 4)).toEqual(['line 1', 'line 2', 'line 3', 'succeeded: completed, exit code 0'])
  expect(lines[4]).toMatch(new RegExp(`^${id} is suspended, on ckpt_`))
  expect(lines.slice(5, 8)).toEqual([
    `${id} is running again`,
    'it still has 3 lines',
    'succeeded: completed, exit code 0',
  ])
  expect(lines[9]).toContain('because it had slept for as long as its own limit allows (10 seconds')
  expect(await world.fleet.get(id)).toMatchObject({ state: 'gone', goneReason: 'destroyed' })
})

test('the backend of boxes is used by a worker and an app, which are told what it cannot do', async () => {
  const { code, printed, complaints } = await node('boxes/main.ts').ended
  expect({ code, complaints }).toEqual({ code: 0, complaints: '' })
  const [made, hello, paused, destroyed] = printed.split('\n')
  expect(made).toMatch(/^sbx_\w+ is running: box boxes\.op_/)
  expect(hello).toMatch(/^hello from .*\/boxes\.op_/)
  expect(paused).toBe('pause: refused, pause_unsupported; it is running')
  expect(destroyed).toMatch(/^sbx_\w+ is gone: destroyed$/)
})

const python = await findPython()
if (python) describe('the example for FastAPI', () => tryPython(python, () => world))
else
  test('there is no Python here, so nothing of the example for FastAPI was tried', () => expect(python).toBeUndefined())
