import { Sandbox } from 'e2b'
import { describe, expect, test } from 'vitest'
import type { Agent, Piece } from '../../../src/backends/backend.ts'
import { GATEWAY } from '../../support/e2b/faults.ts'
import { type Bench, CALL, fails, IDLING, KEY, setup, sh } from './setup.ts'

async function hear(bench: Bench, agent: Agent, cursor?: string) {
  const pieces: Piece[] = []
  for await (const piece of bench.backend.attach(agent, cursor, CALL)) pieces.push(piece)
  const bytes = Buffer.concat(pieces.map((piece) => piece.bytes))
  return { text: bytes.toString(), cursor: pieces.at(-1)?.cursor, isLast: pieces.at(-1)?.isLast ?? false }
}

describe('nothing that is done inside wakes a sandbox, or changes its time', () => {
  test('one that sleeps is not run in, and its agents are asleep', async () => {
    const bench = await setup()
    const { e2b, backend, pausing, create, start } = bench
    const target = await create()
    const agent = await start(target, sh('echo said; sleep 1000'))
    await pausing.suspend(target, { key: 'op_p' }, CALL)
    const before = e2b.requests.length
    await expect(backend.run(target, 'true', CALL)).rejects.toMatchObject(fails('overtaken'))
    await expect(backend.endLingering(target, CALL)).rejects.toMatchObject(fails('overtaken'))
    expect(await backend.agentStatus(agent, CALL)).toEqual({ is: 'asleep' })
    expect(await hear(bench, agent)).toEqual({ text: '', cursor: undefined, isLast: false })
    expect(e2b.requests.slice(before).map(({ route }) => route)).toEqual(['get', 'get', 'get', 'get'])
    expect(e2b.stateOf(target.ref)).toBe('paused')
  })

  test('one that runs is not connected to', async () => {
    const { e2b, backend, create, start } = await setup()
    const target = await create()
    const endsAt = async () => (await Sandbox.getInfo(target.ref, e2b.connection)).endAt.getTime()
    const before = await endsAt()
    await backend.run(target, 'true', CALL)
    await backend.stopAgent(await start(target, IDLING), CALL)
    expect(e2b.count('connect')).toBe(0)
    expect(await endsAt()).toBe(before)
  })
})

describe('when a sandbox goes between the look and the call', () => {
  async function late() {
    const bench = await setup()
    const target = await bench.create()
    const agent = await bench.start(target, IDLING)
    const arriving = bench.e2b.holdOnceAt('start')
    return { ...bench, target, agent, arriving }
  }

  test('to sleep, what was asked for was overtaken, and its agents are asleep', async () => {
    const { backend, pausing, e2b, resume, target, agent, arriving } = await late()
    const running = backend.run(target, 'true', CALL)
    await arriving.entered(1)
    await pausing.suspend(target, { key: 'op_p' }, CALL)
    arriving.open()
    await expect(running).rejects.toMatchObject(fails('overtaken', 'it sleeps'))
    const now = { ...agent, ...(await resume(target.ref)) }
    const again = e2b.holdOnceAt('start')
    const asking = backend.agentStatus(now, CALL)
    await again.entered(1)
    await pausing.suspend(now, { key: 'op_p' }, CALL)
    again.open()
    expect(await asking).toEqual({ is: 'asleep' })
  })

  test('for good, it has expired, and is not unreachable', async () => {
    const { e2b, backend, target, agent, arriving } = await late()
    const running = backend.run(target, 'true', CALL)
    await arriving.entered(1)
    await e2b.lose(target.ref)
    arriving.open()
    await expect(running).rejects.toMatchObject(fails('sandbox_expired'))
    await expect(backend.agentStatus(agent, CALL)).rejects.toMatchObject(fails('sandbox_expired'))
    await expect(backend.stopAgent(agent, CALL)).rejects.toMatchObject(fails('sandbox_expired'))
  })
})

describe('an output', () => {
  const TEXT = 'one\ntwo ü\nthree'

  test.each([
    ['is reset', 'reset'],
    ['is cut', 'cut'],
    ['ends as if all were well', 'end'],
    ['lacks its end', 'short'],
  ] as const)('whose stream %s, wherever that is, goes on from its cursor', async (_what, how) => {
    const bench = await setup()
    const { e2b, create, start } = bench
    const agent = await start(await create(), sh(`printf '${TEXT}'`))
    expect(await hear(bench, agent)).toMatchObject({ text: TEXT, isLast: true })
    // What the script says first, and then letters.
    for (const afterBytes of [0, 20, 44, 50, 64]) {
      e2b.next('start', { kind: 'stream', afterBytes, how })
      const pieces: Piece[] = []
      const cut = async () => {
        for await (const piece of bench.backend.attach(agent, undefined, CALL)) pieces.push(piece)
      }
      await expect(cut()).rejects.toMatchObject(fails('sandbox_unreachable'))
      expect(pieces.some(({ isLast }) => isLast)).toBe(false)
      const heard = Buffer.concat(pieces.map(({ bytes }) => bytes)).toString()
      expect(heard + (await hear(bench, agent, pieces.at(-1)?.cursor)).text).toBe(TEXT)
    }
  })

  test('whose stream hangs can be given up', async () => {
    const { e2b, backend, create, start } = await setup()
    const agent = await start(await create(), sh('echo said; sleep 1000'))
    e2b.next('start', { kind: 'stream', afterBytes: 10, how: 'hang' })
    const giving = new AbortController()
    const hanging = backend.attach(agent, undefined, { signal: giving.signal })[Symbol.asyncIterator]().next()
    await expect.poll(() => e2b.count('start')).toBe(2)
    giving.abort(new Error('enough'))
    await expect(hanging).rejects.toThrow('enough')
  })

  test('that is cut for all who listen goes on for each of them', async () => {
    const bench = await setup()
    const { e2b, backend, create, start } = bench
    const target = await create()
    const agent = await start(target, sh('echo one; until [ -e go ]; do sleep 0.02; done; echo two'))
    const listening = [1, 2, 3].map(() => backend.attach(agent, undefined, CALL)[Symbol.asyncIterator]())
    for (const pieces of listening) expect(Buffer.from((await pieces.next()).value.bytes).toString()).toBe('one\n')
    const breaking = listening.map((pieces) => pieces.next())
    for (const broken of breaking) broken.catch(() => {})
    e2b.cutStreams(target.ref)
    for (const broken of breaking) await expect(broken).rejects.toMatchObject(fails('sandbox_unreachable'))
    await backend.run(target, 'touch go', CALL)
    expect(await hear(bench, agent, '4')).toMatchObject({ text: 'two\n', isLast: true })
  })

  test('that nobody reads on leaves nothing running', async () => {
    const { e2b, backend, create, start } = await setup()
    const target = await create()
    const agent = await start(target, sh('head -c 6000000 /dev/zero; exec sleep 1000'))
    const areTwo = () => expect.poll(() => e2b.pidsOf(target.ref).length).toBe(2) // it, and what will tell its end
    await areTwo()
    const pieces = backend.attach(agent, undefined, CALL)[Symbol.asyncIterator]()
    await pieces.next()
    await pieces.return?.()
    await areTwo()
  })

  test('of a sandbox that goes to sleep ends, and is not said to be over', async () => {
    const bench = await setup()
    const { pausing, create, start, resume } = bench
    const target = await create()
    const agent = await start(target, sh('echo said; sleep 1000'))
    const pieces = bench.backend.attach(agent, undefined, CALL)[Symbol.asyncIterator]()
    await pieces.next()
    const waiting = pieces.next()
    const { checkpointRef } = await pausing.suspend(target, { key: 'op_p' }, CALL)
    expect(await waiting).toEqual({ done: true, value: undefined })
    const awake = await resume(target.ref, checkpointRef)
    expect(await bench.backend.agentStatus(agent, CALL)).toMatchObject({ is: 'restarted' })
    expect(await hear(bench, agent)).toMatchObject({ text: '' })
    await bench.backend.stopAgent({ ...awake, key: KEY }, CALL)
    expect(await hear(bench, { ...awake, key: KEY })).toMatchObject({ text: 'said\n', isLast: true })
  })
})

test('an agent that dies for want of memory has ended, although its sandbox runs (incident C)', async () => {
  const { e2b, backend, create } = await setup()
  const target = await create({ agent: { command: IDLING, sidecar: { command: IDLING } } })
  const agent = { ...target, key: undefined }
  await e2b.starve(target.ref)
  e2b.heal()
  expect(await backend.agentStatus(agent, CALL)).toEqual({
    is: 'terminated',
    exitCode: null,
    signal: null,
    oomKilled: undefined,
  })
  expect(await backend.look(target.ref, CALL)).toMatchObject({ is: 'running' })
})

test('a status that cannot be asked for inside is unknown, and not an end', async () => {
  const { e2b, backend, create, start } = await setup()
  const agent = await start(await create(), IDLING)
  for (const fault of [GATEWAY.html502, { kind: 'lie' } as const, { kind: 'reset', performed: false } as const]) {
    e2b.next('start', fault)
    await expect(backend.agentStatus(agent, CALL)).rejects.toMatchObject(fails('sandbox_unreachable'))
  }
  expect(await backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
})

test('what a profile says is neither an output nor an answer', async () => {
  const bench = await setup()
  const { backend, create, start } = bench
  const target = await create()
  const profile = "printf 'echo welcome; echo\\n' >.bash_profile; printf 'echo bye\\n' >.bash_logout"
  await backend.run(target, profile, CALL)
  expect(await backend.run(target, 'echo hi', CALL)).toEqual({ exitCode: 0, output: 'hi\n' })
  expect(await hear(bench, await start(target, sh('echo said')))).toMatchObject({ text: 'said\n', isLast: true })
})
