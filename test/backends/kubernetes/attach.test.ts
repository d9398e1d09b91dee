import { describe, expect, test, vi } from 'vitest'
import { call, failure, type Made, openFleet, startCluster } from './setup.ts'

const kubernetes = await startCluster()
const WAIT = { timeout: 10_000, interval: 20 }
const NS_A_SECOND = 1_000_000_000n

/** The log of a pod that only waits, and into which the test writes. */
function writer({ name }: Made) {
  const log = () => kubernetes.container(name, 'agent').log
  let atNs = BigInt(Date.now()) * 1_000_000n
  return {
    log,
    write(line: string, afterNs = 1_000n) {
      atNs += afterNs
      kubernetes.appendLog(name, 'agent', line, { atNs })
    },
  }
}
const followed = () => vi.waitFor(() => expect(kubernetes.cluster.logs.count).toBeGreaterThan(0), WAIT)

describe('an output that is followed', () => {
  test('goes on from its cursor although whole seconds are given again, with many lines of one moment', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    const { write } = writer(target)
    let cursor: string | undefined
    let heard = ''
    for (let round = 0; round < 8; round++) {
      for (let line = 0; line < 5; line++) write(`${round}.${line}`, line === 0 ? NS_A_SECOND / 3n : 0n)
      const piece = await fleet.hearUntil(target.own, `${round}.4\n`, cursor)
      heard += piece.text
      cursor = piece.cursor
    }
    expect(heard).toBe(Array.from({ length: 40 }, (_, at) => `${(at / 5) | 0}.${at % 5}\n`).join(''))
  })

  test('asks for no more than it needs when it has been read for long', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    const { write } = writer(target)
    for (let line = 0; line < 300; line++) write(`line ${line}`, NS_A_SECOND)
    const { cursor } = await fleet.hearUntil(target.own, 'line 299\n')
    kubernetes.requests.clear()
    write('last')
    expect((await fleet.hearUntil(target.own, 'last\n', cursor)).text).toBe('last\n')
    const { query } = kubernetes.requests.find(({ resource }) => resource === 'pods/log') ?? {}
    const [firstAt] = [kubernetes.container(target.name, 'agent').log.snapshot()[0]?.atNs ?? 0n]
    const sinceMs = Date.parse(query?.get('sinceTime') ?? '')
    expect(sinceMs).toBeGreaterThan(Number(firstAt / 1_000_000n) + 150_000)
  })

  test('says where its node has thrown away what nobody had read, and repeats nothing', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    const { write, log } = writer(target)
    for (let line = 0; line < 10; line++) write(`line ${line}`)
    const { cursor } = await fleet.hearUntil(target.own, 'line 9\n')
    for (let line = 10; line < 20; line++) write(`line ${line}`)
    log().drop(15)
    const { text, cursor: next } = await fleet.hearUntil(target.own, 'line 19\n', cursor)
    expect(text).toBe(
      `\n[sandman: output is missing here: its node has thrown away the older part of the log]\n${[15, 16, 17, 18, 19].map((at) => `line ${at}\n`).join('')}`,
    )
    write('line 20')
    expect((await fleet.hearUntil(target.own, 'line 20\n', next)).text).toBe('line 20\n')
    // What was thrown away had all been read, as far as anybody can tell: nothing is said twice.
    log().drop(3)
    write('line 21')
    expect((await fleet.hearUntil(target.own, 'line 21\n', next)).text).toMatch(/missing here.*\]\nline 20\nline 21\n$/)
  })

  test('that is reset fails by itself, and no other with it (incident U)', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('echo one; sleep 1000')
    const hearing = Array.from({ length: 5 }, () => fleet.hear(target.own))
    const failing = Promise.all(hearing.map(failure))
    await vi.waitFor(() => expect(kubernetes.cluster.logs.count).toBe(5), WAIT)
    kubernetes.cutLogs('reset')
    expect(new Set((await failing).map(({ type }) => type))).toEqual(new Set(['sandbox_unreachable']))
    expect((await fleet.hearUntil(target.own, 'one\n')).text).toBe('one\n')
    expect((await fleet.backend.run(target, 'echo on', call())).output).toBe('on\n')
  })

  test('that ends although its agent runs is not the end', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('echo one; sleep 1000')
    const hearing = fleet.hear(target.own)
    await followed()
    kubernetes.requests.clear()
    kubernetes.cutLogs('end')
    const { isLast, cursor } = await hearing
    expect(isLast).toBe(false)
    // While the watch tells of changes, nobody has to ask again and again.
    expect(kubernetes.requests.count('get', 'pods')).toBeLessThan(6)
    writer(target).write('two')
    expect((await fleet.hearUntil(target.own, 'two\n', cursor)).text).toMatch(/^(one\n)?two\n$/)
  })

  test('is heard byte by byte where it comes so', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('echo eins; echo zwei ü; sleep 1000')
    await vi.waitFor(() => expect(writer(target).log().nextIndex).toBe(2), WAIT)
    kubernetes.cutLogs('drip', { afterBytes: 1 })
    expect((await fleet.hearUntil(target.own, 'ü\n')).text).toBe('eins\nzwei ü\n')
  })

  test('that hangs lets go of who gives up', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('echo one; sleep 1000')
    kubernetes.cutLogs('stall', { afterBytes: 0 })
    const reason = new Error('given up')
    const abort = new AbortController()
    const hearing = (async () => {
      for await (const _piece of fleet.backend.attach(target.own, undefined, abort)) expect.unreachable()
    })()
    const failing = expect(hearing).rejects.toBe(reason)
    await vi.waitFor(() => expect(kubernetes.requests.count('get', 'pods/log')).toBeGreaterThan(0), WAIT)
    abort.abort(reason)
    await failing
  })

  test('waits for who reads it: no more is taken than a few pieces', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    const { write } = writer(target)
    for (let line = 0; line < 4_000; line++) write(`${line} ${'x'.repeat(8_000)}`)
    const reading = fleet.backend.attach(target.own, undefined, call())[Symbol.asyncIterator]()
    const first = await reading.next()
    expect(first.value.bytes.length).toBeLessThanOrEqual(128 * 1024)
    // As many bytes as buffers on the way take, of 32 MB.
    const sent = () => Math.max(...kubernetes.cluster.logs.sentBytes)
    let before = -1
    await vi.waitFor(
      () => {
        const isStill = sent() === before
        before = sent()
        expect(isStill).toBe(true)
      },
      { timeout: 10_000, interval: 200 },
    )
    expect(before).toBeLessThan(16 << 20)
    await reading.return?.()
  })
})

describe('an output of an agent that has ended', () => {
  const SAYING = 'echo one; echo two; printf three'

  test.each(['end', 'mid-line', 'reset'] as const)('is not taken for whole when it was cut: %s', async (how) => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run(`sleep 0.3; ${SAYING}`)
    await kubernetes.container(target.name, 'agent').ended
    await vi.waitFor(async () => expect((await fleet.look(target.ref)).is).toBe('lost'), WAIT)
    for (let afterBytes = 0; afterBytes < 100; afterBytes += 9) {
      kubernetes.cutLogs(how, { afterBytes })
      let heard = ''
      let cursor: string | undefined
      for (let isLast = false; !isLast; )
        try {
          for await (const piece of fleet.backend.attach(target.own, cursor, call())) {
            heard += Buffer.from(piece.bytes)
            cursor = piece.cursor
            isLast = piece.isLast ?? false
          }
        } catch (error) {
          expect((await failure(Promise.reject(error))).type).toBe('sandbox_unreachable')
        }
      expect(heard).toBe('one\ntwo\nthree')
      kubernetes.heal()
    }
  })

  test('comes to its end although the status lags behind it (incident S)', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run(`${SAYING}; sleep 0.3`)
    kubernetes.lagStatus(500)
    try {
      expect(await fleet.hear(target.own)).toMatchObject({ text: 'one\ntwo\nthree', isLast: true })
    } finally {
      kubernetes.lagStatus(0)
    }
  })

  test('of which its node has lost what was read before is not said to be at its end', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run(`${SAYING}; sleep 0.3`)
    const { cursor } = await fleet.hear(target.own)
    writer(target).log().drop(3)
    expect((await failure(fleet.hear(target.own, cursor))).message).toContain('ends before')
  })

  test('may be what its node says in its place, which is not output', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run(SAYING)
    await vi.waitFor(async () => expect((await fleet.look(target.ref)).is).toBe('lost'), WAIT)
    for (const answer of [
      { status: 200, body: 'unable to retrieve container logs for containerd://0b7f', type: 'text/plain' },
      { status: 200, body: '<h1>Welcome</h1>', type: 'text/html' },
      {
        status: 400,
        body: { kind: 'Status', code: 400, reason: 'BadRequest', message: 'container is waiting to start' },
      },
      { status: 500, body: { kind: 'Status', code: 500, reason: 'InternalError', message: 'no route to host' } },
    ]) {
      kubernetes.failNext({ resource: 'pods/log' }, answer)
      expect((await failure(fleet.hear(target.own))).type).toBe('sandbox_unreachable')
    }
    expect((await fleet.hear(target.own)).text).toBe('one\ntwo\nthree')
  })
})

test('while its output is read here, nobody asks the API server whether an agent runs', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.run('echo one; sleep 1000')
  const reading = fleet.backend.attach(target.own, undefined, call())[Symbol.asyncIterator]()
  await reading.next()
  await vi.waitFor(async () => {
    kubernetes.requests.clear()
    expect(await fleet.backend.agentStatus(target.own, call())).toEqual({ is: 'running' })
    expect(kubernetes.requests).toHaveLength(0)
  }, WAIT)
  // What is not so any more is asked of the API server itself.
  await kubernetes.terminateContainer(target.name, 'agent', { exitCode: 137, reason: 'OOMKilled' })
  await vi.waitFor(
    async () =>
      expect(await fleet.backend.agentStatus(target.own, call())).toEqual({
        is: 'terminated',
        exitCode: 137,
        signal: null,
        oomKilled: true,
      }),
    WAIT,
  )
  await reading.return?.()
  kubernetes.requests.clear()
  await fleet.backend.agentStatus(target.own, call())
  expect(kubernetes.requests.count('get', 'pods')).toBe(1)
})
