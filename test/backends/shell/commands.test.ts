import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import { runCommand } from '../../../src/backends/shell/commands.ts'
import { startAgent } from '../../../src/backends/shell/start.ts'
import { agentStatus } from '../../../src/backends/shell/status.ts'
import { endLingering } from '../../../src/backends/shell/stop.ts'
import { type Bench, CALL, IDLING, isGone, KEY, SHELLS, setup, terminated } from './setup.ts'

const pidIn = async (bench: Bench, file: string) => Number(await readFile(path.join(bench.folder, file), 'utf8'))

describe.each(SHELLS)('in $name, with $has', ({ name }) => {
  test('a command runs at home, and tells how it ended and what it said', async () => {
    const bench = await setup({ shell: name })
    const command = "echo it\\'s; pwd; echo $SANDMAN_PART >&2; exit 3"
    expect(await runCommand(bench, command, CALL)).toEqual({
      exitCode: 3,
      output: `it's\n${bench.folder}\ncommand\n`,
    })
    expect(await runCommand(bench, 'kill -9 $$', CALL)).toEqual({ exitCode: 137, output: '' })
    expect(await runCommand(bench, 'no-such-command', CALL)).toMatchObject({ exitCode: 127 })
    expect(await readdir(path.join(bench.folder, '.sandman', bench.root))).toEqual([])
  })

  test('of a long output the end is told, and a long command arrives', async () => {
    const bench = await setup({ shell: name })
    const { output } = await runCommand(bench, 'seq 100000', CALL)
    expect(output.length).toBe(64 * 1024)
    expect(output.endsWith('\n100000\n')).toBe(true)
    const long = "'".repeat(32_000)
    expect(await runCommand(bench, `printf %s "${long}" | wc -c`, CALL)).toMatchObject({ output: '32000\n' })
  })

  test('what it leaves in the background keeps nobody waiting, and is ended with what lingers', async () => {
    const bench = await setup({ shell: name })
    await startAgent(bench, { part: 'agent', command: IDLING }, CALL)
    await startAgent(bench, { part: 'sidecar', command: IDLING }, CALL)
    await startAgent(bench, { part: KEY, command: IDLING }, CALL)
    expect(await runCommand(bench, 'setsid sleep 1000 & echo $! >left; echo done', CALL)).toEqual({
      exitCode: 0,
      output: 'done\n',
    })
    const left = await pidIn(bench, 'left')
    expect(await isGone(left)).toBe(false)
    await endLingering(bench, CALL)
    expect(await isGone(left)).toBe(true)
    expect(await agentStatus(bench, KEY, CALL)).toEqual(terminated(137))
    expect(await agentStatus(bench, 'agent', CALL)).toEqual({ is: 'running' })
    expect(await agentStatus(bench, 'sidecar', CALL)).toEqual({ is: 'running' })
  })

  test('one that is given up is ended', async () => {
    const bench = await setup({ shell: name })
    const giving = new AbortController()
    const running = runCommand(bench, 'echo $$ >pid; sleep 1000', giving)
    await expect.poll(() => pidIn(bench, 'pid').catch(() => 0)).toBeGreaterThan(0)
    giving.abort(new Error('enough'))
    await expect(running).rejects.toThrow('enough')
    const pid = await pidIn(bench, 'pid')
    await expect.poll(() => isGone(pid)).toBe(true)
  })
})

test('one that is given up before it has begun does not begin', async () => {
  const bench = await setup()
  const giving = new AbortController()
  // The script comes late: whoever has given up has been there before it.
  const { promise: late, resolve: letGo } = Promise.withResolvers<void>()
  const { promise: asked, resolve: isAsked } = Promise.withResolvers<void>()
  let ran: Promise<{ exitCode: number; output: string }> | undefined
  const slow: Bench = {
    ...bench,
    shell: {
      ...bench.shell,
      async run(script, { signal }) {
        if (ran) return bench.shell.run(script, CALL).finally(letGo)
        ran = late.then(() => bench.shell.run(script, CALL))
        isAsked()
        return new Promise((_resolve, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
      },
    },
  }
  await startAgent(bench, { part: KEY, command: ['true'] }, CALL)
  const running = runCommand(slow, 'touch ran', giving)
  await asked
  giving.abort(new Error('enough'))
  await expect(running).rejects.toThrow('enough')
  expect((await ran)?.output).toContain('exited 1')
  expect(bench.isInPlace('ran')).toBe(false)
})

test('nothing lingers where nothing ever ran, and nothing but a NUL is refused', async () => {
  const bench = await setup()
  await endLingering(bench, CALL)
  await expect(runCommand(bench, 'a\0b', CALL)).rejects.toMatchObject({ type: 'spec_invalid' })
  expect(await runCommand(bench, '', CALL)).toEqual({ exitCode: 0, output: '' })
})
