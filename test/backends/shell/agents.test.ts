import { existsSync } from 'node:fs'
import { chmod, mkdir, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { partOf } from '../../../src/backends/shell/parts.ts'
import { startAgent } from '../../../src/backends/shell/start.ts'
import { agentStatus } from '../../../src/backends/shell/status.ts'
import { endFormer, stopAgent } from '../../../src/backends/shell/stop.ts'
import { ALL_SHELLS, type Bench, CALL, IDLING, isGone, KEY, openShell, SHELLS, setup, sh, terminated } from './setup.ts'

const start = (bench: Bench, command: string[], part = KEY) => startAgent(bench, { part, command }, CALL)
const status = (bench: Bench, part = KEY) => agentStatus(bench, part, CALL)

async function pidIn(bench: Bench, file: string, part = KEY): Promise<number> {
  return Number.parseInt(await readFile(path.join(bench.agentFolder(part), file), 'utf8'), 10)
}

test.each(ALL_SHELLS)('in $name an agent runs, and its output and its end are kept', async ({ name }) => {
  const bench = await setup({ shell: name })
  expect(await status(bench)).toEqual({ is: 'none' })
  await start(bench, sh('echo out; echo err >&2; until [ -e go ]; do sleep 0.02; done; exit 3'))
  expect(await status(bench)).toEqual({ is: 'running' })
  await writeFile(path.join(bench.folder, 'go'), '')
  await expect.poll(() => status(bench)).toEqual(terminated(3))
  expect(await bench.output()).toBe('out\nerr\n')
})

describe.each(SHELLS)('in $name, with $has', ({ name }) => {
  const begin = () => setup({ shell: name })

  test('the same key starts once, however many ask at once, and also after its end', async () => {
    const bench = await begin()
    await Promise.all(Array.from({ length: 10 }, () => start(bench, sh('echo once; exit 5'))))
    await expect.poll(() => status(bench)).toEqual(terminated(5))
    await start(bench, sh('echo once; exit 5'))
    expect(await bench.output()).toBe('once\n')
    expect((await readdir(path.dirname(bench.agentFolder(KEY)))).sort()).toEqual([KEY])
  })

  test('words arrive as they are, whatever is in them', async () => {
    const bench = await begin()
    const all = Array.from({ length: 0x7ff }, (_, at) => String.fromCharCode(at + 1)).join('')
    const words = [
      all,
      '',
      ' ',
      "it's",
      '"$(exit 1)"',
      '`x`',
      '-n',
      '--',
      'a\\',
      '\n',
      '*',
      '~',
      '😀',
      '🐚'.repeat(30_000),
    ]
    await start(bench, ['printf', '%s\n', ...words])
    await expect.poll(() => status(bench)).toEqual(terminated(0))
    expect(await bench.output()).toBe(words.map((word) => `${word}\n`).join(''))
  })

  test('it has the variables that it was given, the marks, and no signal that it would ignore', async () => {
    const bench = await begin()
    const env = { UID: '7', GREETING: "it's\nme", SANDMAN_PART: 'mine' }
    const command = sh('echo "$GREETING"; env | grep -e ^UID= -e ^SANDMAN_ | sort')
    await startAgent(bench, { part: KEY, command, env }, CALL)
    await start(bench, ['grep', 'SigIgn', '/proc/self/status'], 'exe_signals')
    await expect.poll(() => status(bench)).toEqual(terminated(0))
    const marks = `SANDMAN_INSTANCE=${path.dirname(bench.agentFolder(KEY))}\nSANDMAN_PART=${KEY}\n`
    expect(await bench.output()).toBe(`it's\nme\n${marks}UID=7\n`)
    await expect.poll(() => bench.output('exe_signals')).toMatch(/SigIgn:\s0+\n/)
  })

  test('one that cannot be started has ended as in a shell, and its output says why', async () => {
    const bench = await begin()
    await start(bench, ['/no/such/program'], 'exe_1')
    await start(bench, ['/etc/passwd'], 'exe_2')
    await start(bench, ['echo', 'ö'.repeat(70_000)], 'exe_3')
    await expect.poll(() => status(bench, 'exe_1')).toEqual(terminated(127))
    await expect.poll(() => status(bench, 'exe_2')).toEqual(terminated(126))
    await expect.poll(() => status(bench, 'exe_3')).toEqual(terminated(126))
    expect(await bench.output('exe_1')).toContain('/no/such/program')
    expect(await bench.output('exe_2')).toContain('/etc/passwd')
    expect(await bench.output('exe_3')).toContain('E2BIG')
  })

  test('a signal is told as a shell tells it', async () => {
    const bench = await begin()
    await start(bench, IDLING)
    process.kill(await pidIn(bench, 'agent'), 'SIGKILL')
    await expect.poll(() => status(bench)).toEqual(terminated(137))
    expect(await bench.output()).toBe('')
  })

  test('to stop one ends it with all that it has started, and asks before it kills', async () => {
    const bench = await begin()
    const kind =
      "trap 'echo bye; exit 7' TERM; (setsid sleep 1000 &); (env -i sleep 1000 &); echo ready; sleep 1000; echo no"
    await start(bench, sh(kind))
    await expect.poll(() => bench.output()).toBe('ready\n')
    const agent = await pidIn(bench, 'agent')
    await stopAgent(bench, KEY, CALL)
    expect(await status(bench)).toEqual(terminated(7))
    expect((await bench.output()).replace('Terminated\n', '')).toBe('ready\nbye\n') // which some shells say of a child
    expect(await isGone(agent)).toBe(true)
    await stopAgent(bench, KEY, CALL)
    await stopAgent(bench, 'exe_other', CALL)
    expect(await status(bench, 'exe_other')).toEqual({ is: 'none' })
  })

  test('what an agent has left behind after its own end is ended when it is stopped', async () => {
    const bench = await begin()
    await start(bench, sh('setsid sleep 1000 & echo $! >left'))
    await expect.poll(() => status(bench)).toEqual(terminated(0))
    const left = Number(await readFile(path.join(bench.folder, 'left'), 'utf8'))
    expect(await isGone(left)).toBe(false)
    await stopAgent(bench, KEY, CALL)
    expect(await isGone(left)).toBe(true)
    expect(await status(bench)).toEqual(terminated(0))
  })
})

test('a command as long as a spec may have it arrives', async () => {
  const bench = await setup()
  const long = "'".repeat(131_071 - 'echo '.length)
  await start(bench, ['echo', long])
  await expect.poll(() => status(bench)).toEqual(terminated(0))
  expect((await bench.output()) === `${long}\n`).toBe(true)
})

test('one that does not want to end is killed, and so are those that it starts meanwhile', async () => {
  const bench = await setup()
  await start(bench, sh("trap '' TERM; echo ready; while :; do sleep 0.01; done"))
  await start(bench, sh('echo other; exec sleep 1000'), 'exe_other')
  await expect.poll(() => bench.output()).toBe('ready\n')
  await stopAgent(bench, KEY, CALL)
  expect(await status(bench)).toEqual(terminated(137))
  expect(await status(bench, 'exe_other')).toEqual({ is: 'running' })
})

test('a hundred agents run in one sandbox at once', async () => {
  const bench = await setup()
  const keys = Array.from({ length: 100 }, (_, at) => `exe_${at}`)
  await Promise.all(keys.map((key) => start(bench, sh('echo $SANDMAN_PART; exec sleep 1000'), key)))
  for (const key of keys) await expect.poll(() => bench.output(key)).toBe(`${key}\n`)
  await stopAgent(bench, 'exe_1', CALL)
  expect(await status(bench, 'exe_1')).toEqual(terminated(143))
  expect(await status(bench, 'exe_10')).toEqual({ is: 'running' })
})

describe('when its runner was killed', () => {
  test('an agent runs on, and nobody can say how it ended', async () => {
    const bench = await setup()
    await start(bench, IDLING)
    process.kill(await pidIn(bench, 'runner'), 'SIGKILL')
    expect(await status(bench)).toEqual({ is: 'running' })
    process.kill(await pidIn(bench, 'agent'), 'SIGKILL')
    await expect.poll(() => status(bench)).toEqual(terminated(null))
  })

  test('an agent can still be stopped, and is not started again', async () => {
    const bench = await setup()
    await start(bench, sh('echo once; sleep 1000'))
    process.kill(await pidIn(bench, 'runner'), 'SIGKILL')
    await stopAgent(bench, KEY, CALL)
    expect(await isGone(await pidIn(bench, 'agent'))).toBe(true)
    await start(bench, sh('echo twice'))
    expect(await status(bench)).toEqual(terminated(null))
    expect(await bench.output()).toBe('once\n')
  })
})

test('a runner that is asked to end stays until its agent has ended', async () => {
  const bench = await setup()
  await start(bench, IDLING)
  const runner = await pidIn(bench, 'runner')
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP'] as const) process.kill(runner, signal)
  await stopAgent(bench, KEY, CALL)
  expect(await status(bench)).toEqual(terminated(143))
})

test('a pid that was given to another process is not taken for an agent', async () => {
  const bench = await setup()
  await start(bench, sh('exit 0'))
  await expect.poll(() => status(bench)).toEqual(terminated(0))
  const folder = bench.agentFolder('exe_fake')
  const [, born] = (await readFile(path.join(bench.agentFolder(KEY), 'agent'), 'utf8')).trim().split(' ')
  await start(bench, sh('true'), 'exe_fake')
  await expect.poll(() => status(bench, 'exe_fake')).toEqual(terminated(0))
  for (const file of ['runner', 'agent']) await writeFile(path.join(folder, file), `${process.pid} ${born}\n`)
  await stopAgent(bench, 'exe_fake', CALL)
  await rm(path.join(folder, 'end'))
  expect(await status(bench, 'exe_fake')).toEqual(terminated(null))
})

test('wherever the script that starts an agent is killed, the next one starts it, and it is started once', async () => {
  const bench = await setup()
  // Each tool counts how often any was used, and at one of those kills the script that uses it.
  const count = path.join(bench.folder, 'count')
  const tools = path.join(bench.folder, 'deadly')
  await mkdir(tools)
  for (const tool of ['mkdir', 'sleep', 'setsid', 'ln', 'mv', 'rm']) {
    const script = `#!/bin/sh
n=$(($(cat ${count}) + 1)); echo $n >${count}
[ $n -ne "$DEADLY" ] || kill -KILL $PPID
exec /usr/bin/${tool} "$@"`
    await writeFile(path.join(tools, tool), script)
    await chmod(path.join(tools, tool), 0o755)
  }
  let isKilled = true
  for (let nth = 1; isKilled && nth < 50; nth++) {
    const part = `exe_${nth}`
    await writeFile(count, '0')
    const env = { HOME: bench.folder, PATH: `${tools}:/usr/bin:/bin`, DEADLY: String(nth) }
    const deadly = { ...bench, shell: openShell(env, '/bin/sh') }
    isKilled = await startAgent(deadly, { part, command: sh('echo once; exit 5') }, CALL).then(
      () => false,
      () => true,
    )
    await start(bench, sh('echo once; exit 5'), part)
    await expect.poll(() => status(bench, part)).toMatchObject({ is: 'terminated' })
    expect(['once\n', '']).toContain(await bench.output(part))
  }
  expect(isKilled).toBe(false)
})

test('what cannot be the key of an agent, or its command, is refused', async () => {
  const bench = await setup()
  for (const key of ['', '..', '../../x', '.hidden', 'a/b', 'agent', 'sidecar', 'command', 'x'.repeat(300), "a'b"])
    expect(() => partOf(key), key).toThrow(expect.objectContaining({ type: 'spec_invalid' }))
  expect([partOf(undefined), partOf(KEY)]).toEqual(['agent', KEY])
  for (const command of [[], ['a\0b']])
    await expect(start(bench, command)).rejects.toMatchObject({ type: 'spec_invalid' })
  expect(existsSync(bench.agentFolder(KEY))).toBe(false)
})

test('where there is no home, agents are kept among the temporary files', async () => {
  const bench = await setup()
  const shell = openShell({ HOME: '/proc', PATH: '/usr/bin:/bin' }, '/bin/sh')
  const homeless = { ...bench, shell }
  await startAgent(homeless, { part: KEY, command: sh('exit 4') }, CALL)
  await expect.poll(() => agentStatus(homeless, KEY, CALL)).toEqual(terminated(4))
  expect(existsSync(path.join('/tmp/.sandman', bench.root))).toBe(true)
  await rm(path.join('/tmp/.sandman', bench.root), { recursive: true })
})

test('what a login profile says is not taken for an answer, and a script that cannot answer is not believed', async () => {
  const bench = await setup()
  const noisy = {
    ...bench,
    shell: { ...bench.shell, run: (script: string) => bench.shell.run(`echo hi\n${script}`, CALL) },
  }
  await startAgent(noisy, { part: KEY, command: IDLING }, CALL)
  expect(await agentStatus(noisy, KEY, CALL)).toEqual({ is: 'running' })
  const mute = {
    ...bench,
    shell: { ...bench.shell, run: async () => ({ exitCode: 1, output: 'no space left on device' }) },
  }
  await expect(agentStatus(mute, KEY, CALL)).rejects.toMatchObject({ type: 'quota_exceeded' })
  const broken = { ...bench, shell: { ...bench.shell, run: async () => ({ exitCode: 127, output: 'awk: not found' }) } }
  await expect(agentStatus(broken, KEY, CALL)).rejects.toMatchObject({ type: 'sandbox_unreachable' })
})

test('a copy begins without the agents of its original, and what came along with it is ended', async () => {
  const bench = await setup()
  for (const part of ['agent', 'sidecar', KEY]) await start(bench, IDLING, part)
  const pids = await Promise.all(['agent', 'sidecar', KEY].map((part) => pidIn(bench, 'agent', part)))
  const copy = { ...bench, root: `copy-of-${bench.root}` }
  expect(await agentStatus(copy, KEY, CALL)).toEqual({ is: 'none' })
  await startAgent(copy, { part: KEY, command: IDLING }, CALL)
  await endFormer(copy, CALL)
  expect(await Promise.all(pids.map(isGone))).toEqual([true, true, true])
  expect(existsSync(bench.agentFolder(KEY))).toBe(false)
  expect(await agentStatus(copy, KEY, CALL)).toEqual({ is: 'running' })
  await endFormer(copy, CALL)
})
