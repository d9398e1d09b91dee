import { randomBytes } from 'node:crypto'
import { readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { Piece } from '../../../src/backends/backend.ts'
import { attach } from '../../../src/backends/shell/attach.ts'
import type { Shell } from '../../../src/backends/shell/shell.ts'
import { startAgent } from '../../../src/backends/shell/start.ts'
import { agentStatus } from '../../../src/backends/shell/status.ts'
import { stopAgent } from '../../../src/backends/shell/stop.ts'
import { type Bench, CALL, isGone, KEY, readAll, SHELLS, setup, sh, terminated } from './setup.ts'

/** Says what is written into a pipe in its home, as soon as it is. */
const ECHOING = sh('mkfifo in; exec cat <>in')

const start = (bench: Bench, command: string[]) => startAgent(bench, { part: KEY, command }, CALL)
const read = (bench: Bench, cursor?: string) => readAll(attach(bench, KEY, cursor, CALL))

async function say(bench: Bench, text: string): Promise<void> {
  await expect.poll(() => bench.isInPlace('in')).toBe(true)
  await writeFile(path.join(bench.folder, 'in'), text)
}

/** As a connection is cut: the bytes so far have arrived, and then there is an error. */
function cutAfter(bench: Bench, bytesMax: number): Bench {
  return {
    ...bench,
    shell: {
      ...bench.shell,
      async *stream(script, call) {
        let left = bytesMax
        const whole = bench.shell.stream(script, call)
        try {
          for (;;) {
            const next = await whole.next()
            if (next.done) return next.value
            yield next.value.subarray(0, left)
            left -= next.value.length
            if (left <= 0) throw new Error('cut')
          }
        } finally {
          await whole.return({ exitCode: 0 })
        }
      },
    },
  }
}

/** As a provider that takes all for text, and hands it on in pieces of an odd length. */
function textOnly({ shell }: Bench): Shell {
  return {
    ...shell,
    carries: 'text',
    async *stream(script, call) {
      const whole = shell.stream(script, call)
      try {
        for (;;) {
          const next = await whole.next()
          if (next.done) return next.value
          const text = Buffer.from(new TextDecoder().decode(next.value))
          for (let at = 0; at < text.length; at += 999) yield text.subarray(at, at + 999)
        }
      } finally {
        await whole.return({ exitCode: 0 })
      }
    },
  }
}

describe.each(SHELLS)('in $name, with $has', ({ name }) => {
  test('the output is told from wherever one was, byte by byte, and its end is known', async () => {
    const bench = await setup({ shell: name })
    await start(bench, sh('printf "añb"; printf err >&2; exit 3'))
    await expect.poll(() => agentStatus(bench, KEY, CALL)).toEqual(terminated(3))
    const whole = Buffer.from('añberr')
    for (let at = 0; at <= whole.length; at++) {
      const rest = await read(bench, String(at))
      expect(rest).toMatchObject({ bytes: whole.subarray(at), cursor: '7', isLast: true })
    }
  })

  test('what is said while one listens is heard, whatever is being written at the end', async () => {
    const bench = await setup({ shell: name })
    await start(bench, sh('echo begin; until [ -e go ]; do sleep 0.02; done; seq 50000; echo end'))
    let heard = ''
    let isLast = false
    for await (const piece of attach(bench, KEY, undefined, CALL)) {
      if (heard === '') await writeFile(path.join(bench.folder, 'go'), '')
      heard += Buffer.from(piece.bytes).toString()
      isLast = piece.isLast ?? false
    }
    expect(heard.split('\n').length).toBe(50_003)
    expect(heard.endsWith('50000\nend\n')).toBe(true)
    expect(isLast).toBe(true)
  })

  test('bytes are what they were, in pieces of a size that fits', async () => {
    const bench = await setup({ shell: name })
    const bytes = randomBytes(300_000)
    await writeFile(path.join(bench.folder, 'copy'), bytes)
    await start(bench, ['cat', 'copy'])
    const all = await read(bench)
    expect(all.bytes.equals(bytes)).toBe(true)
    expect(Math.max(...all.sizes)).toBeLessThanOrEqual(64 * 1024)
    expect(all.cursor).toBe('300000')
    expect((await read(bench, '299990')).bytes.equals(bytes.subarray(299_990))).toBe(true)
  })
})

describe.each(SHELLS)('where only text gets through, in $name', ({ name }) => {
  test('bytes are what they were, wherever the text is cut', async () => {
    const bench = await setup({ shell: name })
    const bytes = randomBytes(150_001)
    await writeFile(path.join(bench.folder, 'copy'), bytes)
    await start(bench, sh('printf begin; until [ -e go ]; do sleep 0.02; done; cat copy'))
    const pieces: Buffer[] = []
    for await (const piece of attach({ ...bench, shell: textOnly(bench) }, KEY, undefined, CALL)) {
      if (pieces.length === 0) await writeFile(path.join(bench.folder, 'go'), '')
      pieces.push(Buffer.from(piece.bytes))
    }
    expect(Buffer.concat(pieces).equals(Buffer.concat([Buffer.from('begin'), bytes]))).toBe(true)
    const rest = await readAll(attach({ ...bench, shell: textOnly(bench) }, KEY, '70000', CALL))
    expect(rest.bytes.equals(bytes.subarray(69_995))).toBe(true)
    expect(rest).toMatchObject({ cursor: '150006', isLast: true })
  })
})

test('a long output is told in several streams', async () => {
  const bench = await setup()
  await start(bench, sh('head -c 9000000 /dev/zero'))
  await expect.poll(() => agentStatus(bench, KEY, CALL)).toEqual(terminated(0))
  const first = await read(bench)
  expect(first).toMatchObject({ cursor: String(8 * 1024 * 1024), isLast: false })
  expect(await read(bench, first.cursor)).toMatchObject({ cursor: '9000000', isLast: true })
})

test('wherever the connection is cut, what is read after that is what was missing', async () => {
  const bench = await setup()
  await start(bench, sh('printf "%s" "ein Überfluß an Bytes"'))
  await expect.poll(() => agentStatus(bench, KEY, CALL)).toEqual(terminated(0))
  const whole = Buffer.from('ein Überfluß an Bytes')
  // What the script says before the output counts as well.
  const answer = `#${'0'.repeat(36)}# from\n`.length
  for (let at = 0; at < answer + whole.length; at += at < answer ? 9 : 1) {
    const pieces: Piece[] = []
    const reading = async () => {
      for await (const piece of attach(cutAfter(bench, at), KEY, undefined, CALL)) pieces.push(piece)
    }
    await expect(reading()).rejects.toThrow('cut')
    const before = Buffer.concat(pieces.map(({ bytes }) => bytes))
    expect(before.length).toBe(Math.max(0, at - answer))
    const after = await read(bench, pieces.at(-1)?.cursor)
    expect(Buffer.concat([before, after.bytes])).toEqual(whole)
  }
})

test('all who listen hear the same, and who has heard enough leaves nothing behind', async () => {
  const bench = await setup()
  await start(bench, ECHOING)
  const heard = ['', '']
  const listening = heard.map(async (_text, at) => {
    for await (const { bytes } of attach(bench, KEY, undefined, CALL)) heard[at] = `${heard[at]}${Buffer.from(bytes)}`
  })
  for (const text of ['one', 'two']) await say(bench, text)
  await expect.poll(() => heard).toEqual(['onetwo', 'onetwo'])
  for await (const { cursor } of attach(bench, KEY, '3', CALL)) {
    expect(cursor).toBe('6')
    break
  }
  const giving = new AbortController()
  const given = attach(bench, KEY, '6', { signal: giving.signal }).next()
  giving.abort(new Error('enough'))
  await expect(given).rejects.toThrow('enough')
  await stopAgent(bench, KEY, CALL)
  await Promise.all(listening)
  const inHome = async (pid: string) =>
    (await readFile(`/proc/${pid}/environ`, 'utf8').catch(() => '')).includes(`HOME=${bench.folder}\0`)
  const pids = async () => {
    const found: string[] = []
    for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name)))
      if ((await inHome(pid)) && !(await isGone(Number(pid)))) found.push(pid)
    return found
  }
  await expect.poll(pids).toEqual([])
})

test('a place at which no output ever was is refused', async () => {
  const bench = await setup()
  await start(bench, sh('printf 1234567'))
  await expect.poll(() => agentStatus(bench, KEY, CALL)).toEqual(terminated(0))
  for (const cursor of ['', 'x', '-1', '1.5', '1e1', ' 1', '8', '9'.repeat(30)])
    await expect(read(bench, cursor), cursor).rejects.toMatchObject({ type: 'spec_invalid' })
  expect((await read(bench, '007')).isLast).toBe(true)
})

test('of an agent that there is not, nothing is heard, and nothing is claimed', async () => {
  const bench = await setup()
  expect(await read(bench)).toMatchObject({ sizes: [], isLast: false })
  await startAgent(bench, { part: 'exe_other', command: ['true'] }, CALL)
  expect(await read(bench)).toMatchObject({ sizes: [], isLast: false })
})

test('of one whose runner was killed, and which has ended since, all is heard, and that it is over', async () => {
  const bench = await setup()
  await start(bench, sh('echo said; sleep 1000'))
  const pieces = attach(bench, KEY, undefined, CALL)
  expect(Buffer.from((await pieces.next()).value?.bytes).toString()).toBe('said\n')
  for (const file of ['runner', 'agent']) {
    const pid = Number.parseInt(await readFile(path.join(bench.agentFolder(KEY), file), 'utf8'), 10)
    process.kill(pid, 'SIGKILL')
  }
  expect(await readAll(pieces)).toMatchObject({ sizes: [0], cursor: '5', isLast: true })
})

test('a script that says nothing, or that was killed, is no end of an output', async () => {
  const bench = await setup()
  await start(bench, sh('echo said'))
  await expect.poll(() => agentStatus(bench, KEY, CALL)).toEqual(terminated(0))
  const saying = (before: string, exitCode: number): Bench => ({
    ...bench,
    shell: {
      ...bench.shell,
      stream: (script, call) => bench.shell.stream(`${before}\n${script}\nexit ${exitCode}`, call),
    },
  })
  const noisy = await readAll(attach(saying('echo welcome; echo', 0), KEY, undefined, CALL))
  expect(noisy.bytes.toString()).toBe('said\n')
  for (const broken of ['exit 0', 'exec sleep 0', 'kill -9 $$', 'dd() { command dd "$@"; kill -9 $$; }'])
    await expect(readAll(attach(saying(broken, 0), KEY, undefined, CALL))).rejects.toMatchObject({
      type: 'sandbox_unreachable',
    })
})
