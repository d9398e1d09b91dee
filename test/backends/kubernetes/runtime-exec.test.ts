import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, test } from 'vitest'
import type { Call } from '../../../src/backends/backend.ts'
import { attach } from '../../../src/backends/shell/attach.ts'
import { runCommand } from '../../../src/backends/shell/commands.ts'
import type { Shell } from '../../../src/backends/shell/shell.ts'
import { startAgent } from '../../../src/backends/shell/start.ts'
import { agentStatus } from '../../../src/backends/shell/status.ts'
import { endLingering, stopAgent } from '../../../src/backends/shell/stop.ts'
import { type Container, ExecFailed } from '../../support/kubernetes/runtime/runtime.ts'
import { IDLING, nameOf, read, run, said, setup, sh } from './runtime-setup.ts'

const CALL: Call = { signal: new AbortController().signal }

test('a command runs beside the main process, with what that was given, and has outputs and an end of its own', async () => {
  const { volume, start } = await setup()
  const container = await start(IDLING, { env: { COLOUR: 'red', HOME: '/workspace' } })
  const told = await run(container, 'pwd; echo $HOME $COLOUR; echo oh >&2; exit 5')
  expect(told).toEqual({ stdout: `${volume}\n${volume} red\n`, stderr: 'oh\n', exitCode: 5 })
  expect(await run(container, 'kill -9 $$')).toMatchObject({ exitCode: 137 })
  expect(container.log.snapshot()).toEqual([])
})

test('what it is told it hears, and without that it hears nothing', async () => {
  const { start } = await setup()
  const container = await start(IDLING)
  expect(await run(container, ['cat'], 'x'.repeat(300_000))).toMatchObject({ stdout: 'x'.repeat(300_000), exitCode: 0 })
  expect(await run(container, ['cat'])).toMatchObject({ stdout: '', exitCode: 0 })
})

test('a program that is not there, or no program, is what a shell says of it', async () => {
  const { volume, start } = await setup()
  await writeFile(path.join(volume, 'text'), 'no program', { mode: 0o600 })
  const container = await start(IDLING)
  expect(await run(container, ['nonsense'])).toMatchObject({
    exitCode: 127,
    stderr: expect.stringContaining('nonsense'),
  })
  expect(await run(container, ['./text'])).toMatchObject({ exitCode: 126, stderr: expect.stringContaining('text') })
  for (const command of [[], ['echo', 'a\0b'], ['echo', 'x'.repeat(1 << 20)]])
    await expect(container.exec({ command, stdin: false, tty: false })).rejects.toThrow(ExecFailed)
})

test('one that is asked for with a terminal has a single output', async () => {
  const { start } = await setup()
  const container = await start(IDLING)
  const { stdout, ended } = await container.exec({ command: sh('echo one; echo two >&2'), stdin: false, tty: true })
  expect(await read(stdout)).toBe('one\ntwo\n')
  expect(await ended).toEqual({ exitCode: 0 })
})

test('in one that has ended, nothing is run', async () => {
  const { start } = await setup()
  const container = await start(['true'])
  await container.ended
  await expect(run(container, 'true')).rejects.toThrow(ExecFailed)
})

test('one that is killed is killed alone', async () => {
  const { start } = await setup()
  const container = await start(IDLING)
  const child = await container.exec({ command: sh('sleep 1000 & echo $!; wait'), stdin: false, tty: false })
  child.stderr.resume()
  const [pid] = await once(child.stdout, 'data')
  child.kill()
  expect(await child.ended).toEqual({ exitCode: 137 })
  expect(container.pids).toContain(Number(pid))
  child.kill()
})

test('one that writes faster than it is read is held up, and loses nothing, also after its end', async () => {
  const { volume, start } = await setup()
  const bytes = 12_000_000
  await writeFile(path.join(volume, 'much'), Buffer.alloc(bytes, 'much'))
  const container = await start(IDLING)
  const pidOf = (name: string) => container.pids.find((pid) => nameOf(pid) === name)
  const much = await container.exec({ command: ['cat', 'much'], stdin: false, tty: false })
  await expect.poll(() => pidOf('cat')).toBeDefined()
  const pid = pidOf('cat')
  await once(much.stdout, 'readable')
  const first: Buffer = much.stdout.read()
  const written = () => Number(readFileSync(`/proc/${pid}/io`, 'utf8').match(/^wchar: (\d+)/m)?.[1])
  for (let seen = -1; seen !== written(); await sleep(50)) seen = written()
  expect(written()).toBeLessThan(2_000_000)
  much.stderr.resume()
  expect(first.length + (await read(much.stdout)).length).toBe(bytes)
  expect(await much.ended).toEqual({ exitCode: 0 })

  const little = await container.exec({ command: ['head', '-c', '100000', 'much'], stdin: false, tty: false })
  little.stderr.resume()
  await expect.poll(() => container.pids.length).toBe(1)
  await sleep(100) // longer than one waits for what others may still say
  expect((await read(little.stdout)).length).toBe(100_000)
  expect(await little.ended).toEqual({ exitCode: 0 })
})

test.each([
  ['says nothing', 'sleep 1000', /^hello\n$/],
  ['says a little all the time', 'while :; do echo more; sleep 0.01; done', /^hello\n|^more\n/],
  ['says as much as it can', 'yes', /hello\n|y\n/],
])('what it leaves in the background, and %s, does not keep its outputs open', async (_name, lingering, said) => {
  const { start } = await setup()
  const container = await start(IDLING)
  const before = container.pids.length
  const told = await run(container, `${lingering} & echo hello`)
  expect(told).toMatchObject({ stdout: expect.stringMatching(said), exitCode: 0 })
  expect(told.stdout).toContain('hello\n')
  if (lingering === 'sleep 1000') expect(container.pids.length).toBe(before + 1)
})

test('the agents of a shell can be had in it', async () => {
  const { start } = await setup()
  const container = await start(IDLING, { env: { HOME: '/workspace' } })
  const inside = { shell: shellIn(container), root: 'life-1' }
  await startAgent(inside, { part: 'one', command: sh('echo one; exit 3') }, CALL)
  await startAgent(inside, { part: 'two', command: sh('echo two; exec sleep 1000') }, CALL)
  let heard = ''
  for await (const { bytes } of attach(inside, 'one', undefined, CALL)) heard += Buffer.from(bytes)
  expect(heard).toBe('one\n')
  expect(await agentStatus(inside, 'one', CALL)).toMatchObject({ is: 'terminated', exitCode: 3 })
  await stopAgent(inside, 'two', CALL)
  expect(await agentStatus(inside, 'two', CALL)).toMatchObject({ is: 'terminated', exitCode: 143 })
  expect(await runCommand(inside, 'sleep 1000 & echo here', CALL)).toMatchObject({ exitCode: 0, output: 'here\n' })
  await endLingering(inside, CALL)
  await expect.poll(() => container.pids.length).toBe(1)
  expect(container.end).toBeUndefined()
})

test('what one leaves running is of the container, and ends with it', async () => {
  const { start } = await setup()
  const container = await start(sh('echo ready; sleep 1000'))
  await said(container, 'ready')
  await run(container, 'setsid sleep 1000 >/dev/null 2>&1 &')
  expect(container.pids.length).toBeGreaterThanOrEqual(2)
  expect(await container.stop(10_000)).toMatchObject({ exitCode: 143 })
  expect(container.pids).toEqual([])
})

function shellIn(container: Container): Shell {
  return {
    async run(script) {
      const { stdout, exitCode } = await run(container, script)
      return { exitCode, output: stdout }
    },
    async *stream(script) {
      const { stdout, stderr, ended } = await container.exec({ command: sh(script), stdin: false, tty: false })
      stderr.resume()
      yield* stdout as AsyncIterable<Uint8Array>
      return await ended
    },
  }
}
