import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Agent, Pausing, Piece } from '../../../src/backends/backend.ts'
import { outputFile, readAgentStarted } from '../../../src/backends/local/agent-files.ts'
import { findSupervisor } from '../../../src/backends/local/instance.ts'
import { type Bench, CALL, COUNTING, IDLING, isGone, KEY, OWN, REF, setup, sh, terminated } from './setup.ts'

/** Says what is written into a pipe in its workspace, as soon as it is. Its own hand on the pipe keeps what nobody has read yet. */
const ECHOING = sh('mkfifo in; exec cat <>in')

async function readAll(pieces: AsyncIterable<Piece>): Promise<{ bytes: Buffer; sizes: number[]; cursor?: string }> {
  const all: Piece[] = []
  for await (const piece of pieces) all.push(piece)
  const cursor = all.at(-1)?.cursor
  return {
    bytes: Buffer.concat(all.map(({ bytes }) => bytes)),
    sizes: all.map(({ bytes }) => bytes.length),
    ...(cursor && { cursor }),
  }
}

/** What this process has open, and what it watches. */
async function held(): Promise<{ files: number; watches: number }> {
  const infos = await Promise.all(
    (await readdir('/proc/self/fdinfo')).map((fd) =>
      readFile(`/proc/self/fdinfo/${fd}`, 'utf8').catch(() => undefined),
    ),
  )
  const open = infos.filter((info) => info !== undefined)
  return { files: open.length, watches: open.join('').match(/^inotify wd:/gm)?.length ?? 0 }
}

/** The first watch of a process opens something that stays. */
async function warmUp(bench: Bench): Promise<void> {
  const agent = await bench.start(sh('sleep 0.1'), 'exe_warm')
  await readAll(bench.backend.attach(agent, undefined, CALL))
}

async function say(bench: Bench, text: string): Promise<void> {
  const pipe = path.join((await bench.instance()).workspace, 'in')
  await expect.poll(() => readdir(path.dirname(pipe))).toContain('in')
  await writeFile(pipe, text)
}

describe.each([
  ['the agent that a sandbox was made with', undefined],
  ['an agent that was started by key', KEY],
])('of %s', (_what, key) => {
  async function begin(command: string[]): Promise<{ bench: Bench; agent: Agent }> {
    const bench = await setup()
    await bench.create(key === undefined ? command : IDLING)
    return { bench, agent: key === undefined ? OWN : await bench.start(command, key) }
  }

  test('the output is told from wherever one was, byte by byte', async () => {
    const { bench, agent } = await begin(sh('printf "añb"; printf err >&2; exit 3'))
    await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(3, null))
    const whole = Buffer.from('añberr')
    expect(await readAll(bench.backend.attach(agent, undefined, CALL))).toMatchObject({ bytes: whole, cursor: '7' })
    for (let at = 0; at <= whole.length; at++) {
      const { bytes } = await readAll(bench.backend.attach(agent, String(at), CALL))
      expect(bytes).toEqual(whole.subarray(at))
    }
  })

  test('what is said is heard at once, by all who listen, until there is no more', async () => {
    const { bench, agent } = await begin(ECHOING)
    const heard = Array.from({ length: 3 }, () => '')
    const listening = heard.map(async (_text, at) => {
      for await (const { bytes } of bench.backend.attach(agent, undefined, CALL))
        heard[at] = `${heard[at]}${Buffer.from(bytes)}`
    })
    let said = ''
    // Who only looked from time to time would need longer than a test may take.
    for (let line = 1; line <= 20; line++) {
      await say(bench, `${line}\n`)
      said += `${line}\n`
      await expect.poll(() => heard, { interval: 1 }).toEqual([said, said, said])
    }
    await bench.backend.stopAgent(agent, CALL)
    await Promise.all(listening)
    expect(heard).toEqual([said, said, said])
  })

  test('the end comes after the last byte, whatever is being written at the end', async () => {
    const { bench, agent } = await begin(sh('echo begin; sleep 0.2; seq 50000; echo end'))
    const { bytes } = await readAll(bench.backend.attach(agent, undefined, CALL))
    expect(bytes.toString().split('\n').length).toBe(50_003)
    expect(bytes.toString().endsWith('50000\nend\n')).toBe(true)
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(0, null))
  })

  test('bytes are what they were, in pieces of a size that fits', async () => {
    const { bench, agent } = await begin(sh('head -c 300000 /dev/urandom | tee copy'))
    const { bytes, sizes, cursor } = await readAll(bench.backend.attach(agent, undefined, CALL))
    const copy = await readFile(path.join((await bench.instance()).workspace, 'copy'))
    expect(bytes.equals(copy)).toBe(true)
    expect(Math.max(...sizes)).toBeLessThanOrEqual(64 * 1024)
    expect(cursor).toBe('300000')
  })
})

test('nothing is read before it is asked for', async () => {
  const bench = await setup()
  await bench.create()
  const agent = await bench.start(sh('head -c 200000 /dev/zero'))
  await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(0, null))
  const pieces = bench.backend.attach(agent, undefined, CALL)[Symbol.asyncIterator]()
  const nextBytes = async () => Buffer.from((await pieces.next()).value.bytes)
  expect(await nextBytes()).toEqual(Buffer.alloc(64 * 1024))
  const file = outputFile((await bench.instance()).folder, KEY)
  await writeFile(file, Buffer.alloc(200_000, 'x'))
  expect(await nextBytes()).toEqual(Buffer.alloc(64 * 1024, 'x'))
  await pieces.return?.()
})

test('who has heard enough, or gives up, leaves nothing open, and watches nothing any more', async () => {
  const bench = await setup()
  await bench.create()
  await warmUp(bench)
  const agent = await bench.start(ECHOING)
  const before = await held()

  const giving = new AbortController()
  const given = bench.backend.attach(agent, undefined, { signal: giving.signal })[Symbol.asyncIterator]()
  const first = given.next()
  await say(bench, 'hello')
  expect(Buffer.from((await first).value.bytes).toString()).toBe('hello')
  const waiting = given.next()
  await expect.poll(held).toEqual({ files: before.files + 1, watches: before.watches + 1 })
  giving.abort(new Error('enough'))
  await expect(waiting).rejects.toThrow('enough')
  await expect.poll(held).toEqual(before)
  await expect(readAll(bench.backend.attach(agent, undefined, { signal: giving.signal }))).rejects.toThrow('enough')

  for await (const { bytes } of bench.backend.attach(agent, undefined, CALL)) {
    expect(bytes.length).toBe(5)
    break
  }
  await expect.poll(held).toEqual(before)
})

test('two hundred listen at once, each hears its own agent, and one file and one watch is all that each needs', async () => {
  const bench = await setup()
  const target = await bench.create()
  await warmUp(bench)
  const waiting = sh('echo $SANDMAN_PART; until [ -e go ]; do sleep 0.1; done; echo bye')
  const keys = Array.from({ length: 40 }, (_, at) => `exe_${at}`)
  const agents = await Promise.all(keys.map((key) => bench.start(waiting, key)))
  const before = await held()
  const listening = agents.flatMap((agent) =>
    Array.from({ length: 5 }, async () => {
      const { bytes } = await readAll(bench.backend.attach(agent, undefined, CALL))
      expect(bytes.toString()).toBe(`${agent.key}\nbye\n`)
    }),
  )
  // Who listens to the same agent shares its watch.
  await expect.poll(held, { timeout: 10_000 }).toEqual({ files: before.files + 200, watches: before.watches + 40 })
  await bench.backend.run(target, 'touch go', CALL)
  await Promise.all(listening)
  await expect.poll(held).toEqual(before)
})

test('a place at which no output ever was is refused', async () => {
  const bench = await setup()
  await bench.create()
  const agent = await bench.start(sh('printf 1234567'))
  await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(0, null))
  for (const cursor of ['', 'x', '-1', '1.5', '1e1', ' 1', '8', '9'.repeat(30)]) {
    const reading = readAll(bench.backend.attach(agent, cursor, CALL))
    await expect(reading, cursor).rejects.toMatchObject({ name: 'BackendError', type: 'spec_invalid' })
  }
  for (const key of ['agent', '../agents/agent', '']) {
    const reading = readAll(bench.backend.attach({ ...agent, key }, undefined, CALL))
    await expect(reading).rejects.toMatchObject({ type: 'spec_invalid' })
  }
})

test('who listens to a sandbox that is ended is told so, and so is who comes later', async () => {
  const bench = await setup()
  const target = await bench.create()
  const agent = await bench.start(ECHOING)
  const pieces = bench.backend.attach(agent, undefined, CALL)[Symbol.asyncIterator]()
  const first = pieces.next()
  await say(bench, 'hello')
  await first
  const waiting = pieces.next()
  waiting.catch(() => {})
  await bench.backend.end(target, CALL)
  await expect(waiting).rejects.toMatchObject({ type: 'sandbox_expired' })
  const late = readAll(bench.backend.attach(agent, undefined, CALL))
  await expect(late).rejects.toMatchObject({ type: 'sandbox_expired' })
})

test('of one that sleeps, one hears what it has said before; of another incarnation, or of none, nothing', async () => {
  const bench = await setup()
  const target = await bench.create(COUNTING)
  await expect.poll(async () => (await bench.output()).length).toBeGreaterThan(10)
  const pausing = bench.backend.pausing as Pausing
  const { checkpointRef } = await pausing.suspend(target, { key: 'op_pause' }, CALL)
  const said = await bench.output()
  const asleep = await readAll(bench.backend.attach(OWN, undefined, CALL))
  expect(asleep.bytes.toString()).toBe(said)

  await pausing.resume({ ref: REF, checkpointRef }, { key: 'op_resume', ttlMs: 1_000 }, CALL)
  expect(await readAll(bench.backend.attach(OWN, undefined, CALL))).toMatchObject({ sizes: [] })
  const awake = { ...OWN, incarnation: 'op_resume' }
  expect(await readAll(bench.backend.attach({ ...awake, key: KEY }, undefined, CALL))).toMatchObject({ sizes: [] })
  for await (const { bytes } of bench.backend.attach(awake, asleep.cursor, CALL)) {
    expect((await bench.output()).slice(said.length).startsWith(Buffer.from(bytes).toString())).toBe(true)
    break
  }
})

test('who listens is let go when nobody is left who could say how it ended, or when another incarnation runs', async () => {
  const [killed, paused] = [await setup(), await setup({ homeId: 'decaf000' })]
  await killed.create()
  const instance = await killed.instance()
  const agent = await killed.start(IDLING)
  const target = await paused.create(COUNTING)
  const listening = [
    readAll(killed.backend.attach(agent, undefined, CALL)),
    readAll(paused.backend.attach({ ...target, key: undefined }, undefined, CALL)),
  ]
  for (const pid of [
    (await findSupervisor(instance))?.pid,
    (await readAgentStarted(instance.folder, KEY))?.process?.pid,
  ]) {
    process.kill(pid ?? 0, 'SIGKILL')
    await expect.poll(() => isGone(pid ?? 0)).toBe(true)
  }
  const pausing = paused.backend.pausing as Pausing
  await pausing.suspend(target, { key: 'op_pause' }, CALL)
  await pausing.resume({ ref: target.ref, checkpointRef: undefined }, { key: 'op_resume', ttlMs: 1_000 }, CALL)
  await Promise.all(listening)
})
