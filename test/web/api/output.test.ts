import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { createFleet, type Execution, type Fleet } from '../../../src/index.ts'
import { streamEvents } from '../../../src/web/api/output.ts'
import { BRIEF, work } from '../../executions/setup.ts'
import { createWorld, type World } from '../../support/world.ts'
import { serveHttp, siteOf } from './setup.ts'

let world: World
let watched: ReturnType<typeof watch>
let site: ReturnType<typeof siteOf>
beforeAll(async () => {
  world = await createWorld('postgres')
  await world.startWorker({ patience: BRIEF })
  watched = watch(world.fleet)
  site = siteOf(watched.fleet)
})
afterEach(() => world.expectInvariants())
afterAll(() => world.end())

/** The same fleet, and how many of the calls that wait are under way. */
function watch(fleet: Fleet) {
  let waiting = 0
  const count = async <T>(call: Promise<T>): Promise<T> => {
    waiting++
    return call.finally(() => waiting--)
  }
  return {
    get waiting() {
      return waiting
    },
    fleet: {
      ...fleet,
      pause: (...asked: Parameters<Fleet['pause']>) => count(fleet.pause(...asked)),
      operation: (...asked: Parameters<Fleet['operation']>) => count(fleet.operation(...asked)),
      execution: (...asked: Parameters<Fleet['execution']>) => count(fleet.execution(...asked)),
      output(...asked: Parameters<Fleet['output']>): ReturnType<Fleet['output']> {
        const output = fleet.output(...asked)
        return {
          [Symbol.asyncIterator]() {
            const iterator = output[Symbol.asyncIterator]()
            return { ...iterator, next: () => count(iterator.next()) }
          },
        }
      },
    } satisfies Fleet as Fleet,
  }
}

type ServerEvent = { id?: string; event?: string; data?: string; comment?: string }

/** Reads server-sent events as a browser does, one after the other. */
async function* eventsIn(chunks: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent, void> {
  const decoder = new TextDecoder()
  let text = ''
  for await (const chunk of chunks) {
    text += decoder.decode(chunk, { stream: true })
    for (let end = text.indexOf('\n\n'); end !== -1; end = text.indexOf('\n\n')) {
      const lines = text.slice(0, end).split('\n')
      text = text.slice(end + 2)
      yield Object.fromEntries(
        lines.map((line) => {
          const [, name = '', value = ''] = /^([a-z]*): (.*)$/s.exec(line) ?? []
          return [name === '' ? 'comment' : name, value]
        }),
      )
    }
  }
}

async function readAll(path: string, headers: Record<string, string> = {}): Promise<ServerEvent[]> {
  const response = await site.fetch(path, { headers })
  expect(response.status).toBe(200)
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  expect(response.headers.get('x-content-type-options')).toBe('nosniff')
  const events: ServerEvent[] = []
  for await (const event of eventsIn(response.body as ReadableStream<Uint8Array>)) events.push(event)
  return events
}

const pieces = (events: ServerEvent[]) =>
  events.filter(({ event }) => event === undefined).map(({ data }) => JSON.parse(data as string))

async function printed(text: string | Uint8Array): Promise<Execution> {
  const { execution, agent } = await work(world)
  agent.write(text)
  agent.exit()
  const { execution: ended } = await world.fleet.execution(execution.id, { wait: '30s' })
  expect(ended.endedAt).not.toBeNull()
  return ended
}

describe('the output of an execution', () => {
  test('is sent as it is printed, and ends with the execution', async () => {
    const { execution, agent } = await work(world)
    const response = await site.fetch(`/v1/executions/${execution.id}/output`)
    const events = eventsIn(response.body as ReadableStream<Uint8Array>)
    let at = 0
    for (const word of ['<b>one</b>\n', 'two\r\n\r\n', 'drei ☃']) {
      agent.write(word)
      const { value } = await events.next()
      const from = at
      at += Buffer.byteLength(word)
      expect(value).toEqual({ id: String(at), data: JSON.stringify({ from, to: at, text: word }) })
    }
    agent.exit({ exitCode: 3 })
    const { value: end } = await events.next()
    expect(end).toMatchObject({ id: 'end', event: 'end' })
    expect(JSON.parse((end as ServerEvent).data as string)).toMatchObject({
      id: execution.id,
      status: 'failed',
      exit_code: 3,
      output_bytes: at,
    })
    expect(await events.next()).toMatchObject({ done: true })
  })

  test('goes on behind the last event that was seen, wherever that was', async () => {
    const text = 'ä€😀 and so on'
    const { id } = await printed(text)
    const bytes = Buffer.from(text)
    for (const [headers, query, from] of [
      [{ 'last-event-id': '2' }, '', 2],
      [{ 'last-event-id': '9' }, '?from=2', 9],
      [{}, '?from=5', 5],
      [{ 'last-event-id': '' }, '', 0],
      [{ 'last-event-id': String(bytes.length) }, '', bytes.length],
    ] as const) {
      const events = await readAll(`/v1/executions/${id}/output${query}`, headers)
      const told = pieces(events).map(({ text }) => text)
      expect(told.join('')).toBe(bytes.subarray(from).toString())
      expect(events.at(-1)).toMatchObject({ event: 'end' })
    }
    const over = await site.fetch(`/v1/executions/${id}/output`, { headers: { 'last-event-id': 'end' } })
    expect(over.status).toBe(204)
    for (const wrong of ['-1', '1.5', 'x', '9'.repeat(20)]) {
      const told = await site.get(`/v1/executions/${id}/output`, { headers: { 'last-event-id': wrong } })
      expect(told).toMatchObject({ status: 422, body: { errors: [{ field: 'Last-Event-ID' }] } })
    }
    expect((await site.get(`/v1/executions/${id}/output?encoding=latin1`)).body.errors[0].field).toBe('encoding')
  })

  test('is sent to the byte for those who ask for bytes', async () => {
    const bytes = Buffer.from([0xff, 0x00, 0xe2, 0x82, 0x0a, 0xc3])
    const { id } = await printed(bytes)
    const exact = pieces(await readAll(`/v1/executions/${id}/output?encoding=base64`))
    expect(Buffer.concat(exact.map(({ base64 }) => Buffer.from(base64, 'base64')))).toEqual(bytes)
    expect(pieces(await readAll(`/v1/executions/${id}/output?from=1&encoding=base64`))[0].from).toBe(1)
    const text = pieces(await readAll(`/v1/executions/${id}/output`))
    expect(text.map(({ text }) => text).join('')).toBe(bytes.toString())
    expect(text.at(-1).to).toBe(bytes.length)
  })

  test('says that it is still there while nothing is printed', async () => {
    const { execution, agent } = await work(world)
    const { signal } = new AbortController()
    const reading = { executionId: execution.id, from: 0, encoding: 'text', signal, signOfLifeMs: 1 } as const
    const events = eventsIn(streamEvents(world.fleet, reading))
    for (let nth = 0; nth < 3; nth++) expect((await events.next()).value).toEqual({ comment: 'still here' })
    agent.write('at last')
    agent.exit()
    const rest: ServerEvent[] = []
    for await (const event of events) if (event.comment === undefined) rest.push(event)
    expect(pieces(rest)).toEqual([{ from: 0, to: 7, text: 'at last' }])
  })

  test('is read no faster than it is taken', async () => {
    const { id, outputBytes } = await printed(Buffer.alloc(3_000_000, 'x'))
    const { signal } = new AbortController()
    let read = 0
    const output = world.fleet.output(id)
    const counted: Fleet = {
      ...world.fleet,
      output: () =>
        (async function* () {
          for await (const piece of output) {
            read += piece.bytes.length
            yield piece
          }
        })(),
    }
    const reader = streamEvents(counted, { executionId: id, from: 0, encoding: 'text', signal }).getReader()
    await reader.read()
    const first = read
    // Whatever would be read ahead has had its turn when another question to the same database has been answered.
    for (let nth = 0; nth < 5; nth++) await world.fleet.execution(id)
    expect(read).toBe(first)
    expect(first).toBeLessThan(outputBytes / 4)
    await reader.cancel()
  })

  test('that cannot be read on is a problem, which a reader can come back from', async () => {
    const { execution, agent } = await work(world)
    const other = createFleet(world.place)
    const { signal } = new AbortController()
    const stream = streamEvents(other, { executionId: execution.id, from: 0, encoding: 'text', signal })
    const events = eventsIn(stream)
    agent.write('x')
    expect((await events.next()).value).toMatchObject({ id: '1' })
    const next = events.next()
    await other.close()
    const { value } = await next
    expect(value).toMatchObject({ event: 'problem' })
    expect(JSON.parse((value as ServerEvent).data as string)).toMatchObject({ status: 503, error_type: 'fleet_closed' })
    expect(await events.next()).toMatchObject({ done: true })
    agent.exit()
    await world.fleet.execution(execution.id, { wait: '30s' })
  })
})

test('who asks for the headers only is not kept for the rest', async () => {
  const { execution, agent } = await work(world)
  const response = await site.fetch(`/v1/executions/${execution.id}/output`, { method: 'HEAD' })
  expect(response.headers.get('content-type')).toBe('text/event-stream; charset=utf-8')
  expect(watched.waiting).toBe(0)
  agent.exit()
  await world.fleet.execution(execution.id, { wait: '30s' })
})

describe('a client that goes', () => {
  async function serve(): Promise<string> {
    const { url, stop } = await serveHttp(watched.fleet)
    onTestFinished(stop)
    return url
  }

  test('leaves nobody waiting for its output', async () => {
    const url = await serve()
    const { execution, agent } = await work(world)
    agent.write('x')
    const client = request(`${url}/v1/executions/${execution.id}/output`).end()
    const [response] = (await once(client, 'response')) as [IncomingMessage]
    await once(response, 'data')
    await expect.poll(() => watched.waiting).toBe(1)
    client.destroy()
    await expect.poll(() => watched.waiting, { interval: 5 }).toBe(0)
    agent.exit()
    await world.fleet.execution(execution.id, { wait: '30s' })
  })

  test.each([
    ['content-length', '0'],
    ['transfer-encoding', 'chunked'], // then the body is read before, and another request is put in the place of this one
  ])(
    'leaves nobody waiting for what it asked for with %s, and that is carried out all the same',
    async (name, value) => {
      const url = await serve()
      const { id } = await world.running()
      const held = world.provider.holdAt('suspend')
      const client = request(`${url}/v1/sandboxes/${id}/pause?wait=10m`, {
        method: 'POST',
        headers: { [name]: value },
      }).end()
      client.on('error', () => {})
      await held.entered(1)
      expect(watched.waiting).toBe(1)
      client.destroy()
      await expect.poll(() => watched.waiting, { interval: 5 }).toBe(0)
      const { items } = await world.fleet.operations(id)
      const reader = request(`${url}/v1/operations/${items[0]?.id}?wait=10m`).end()
      reader.on('error', () => {})
      await expect.poll(() => watched.waiting, { interval: 5 }).toBe(1)
      reader.destroy()
      await expect.poll(() => watched.waiting, { interval: 5 }).toBe(0)
      held.open()
      const { operation, sandbox } = await world.fleet.operation(items[0]?.id as string, { wait: '30s' })
      expect(operation).toMatchObject({ kind: 'pause', status: 'succeeded' })
      expect(sandbox.state).toBe('suspended')
    },
  )
})
