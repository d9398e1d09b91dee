import { readdir, readFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { findMembers } from '../../../src/backends/local/processes.ts'
import { CALL, COUNTING, IDLING, isGone, REF, setup, sh, WAYS } from './setup.ts'

test('a command says how it ended, and what it printed at last', async () => {
  const { backend, create } = await setup()
  const target = await create()
  expect(await backend.run(target, 'pwd; echo oops >&2; exit 7', CALL)).toEqual({
    exitCode: 7,
    output: expect.stringMatching(/\/workspace\noops\n$/),
  })
  expect((await backend.run(target, 'kill -9 $$', CALL)).exitCode).toBe(137)
  const { output } = await backend.run(target, 'seq 100000; echo end', CALL)
  expect(output).toHaveLength(64 * 1024)
  expect(output.endsWith('100000\nend\n')).toBe(true)
  await expect(backend.run({ ref: REF, incarnation: 'another' }, 'true', CALL)).rejects.toMatchObject({
    type: 'overtaken',
  })
})

describe.each(WAYS)('%s', (_way, cgroups) => {
  test('what a command leaves in the background keeps nobody waiting, and is ended on request, and nothing else', async () => {
    const { backend, create, instance } = await setup({ cgroups })
    const agent = { command: sh('(setsid sleep 1000 &); sleep 1000'), sidecar: { command: IDLING } }
    const target = await create([], { spec: { agent } })
    // Not only four of them: on the way there, a shell stands for what it is about to start.
    await expect
      .poll(async () => namesOf(await findMembers(await instance())))
      .toEqual(['sh', 'sleep', 'sleep', 'sleep'])
    const own = (await findMembers(await instance())).map(({ pid }) => pid).sort()

    // One in the background, one that has left its session and its parents, and one that keeps printing.
    const command = `sleep 1000 & (setsid sleep 1000 &); sh -c '${COUNTING[2]}' & echo started`
    expect(await backend.run(target, command, CALL)).toEqual({
      exitCode: 0,
      output: expect.stringContaining('started'),
    })
    const others = async () => (await findMembers(await instance())).filter(({ pid }) => !own.includes(pid))
    await expect.poll(async () => (await others()).length).toBeGreaterThanOrEqual(3)
    const lingering = await others()
    expect(new Set(lingering.map(({ part }) => part))).toEqual(new Set(['command']))

    await backend.endLingering(target, CALL)
    expect((await findMembers(await instance())).map(({ pid }) => pid).sort()).toEqual(own)
    expect(await Promise.all(lingering.map(({ pid }) => isGone(pid)))).toEqual(lingering.map(() => true))
    await backend.endLingering(target, CALL)
  })
})

test('a command that is given up is ended', async () => {
  const { backend, create, instance } = await setup()
  const target = await create()
  const giving = new AbortController()
  const running = backend.run(target, 'sleep 1000; echo never', { signal: giving.signal })
  const commands = async () => (await findMembers(await instance())).filter(({ part }) => part === 'command')
  await expect.poll(async () => (await commands()).length).toBe(2)
  giving.abort(new Error('enough'))
  await expect(running).rejects.toThrow('enough')
  await expect.poll(commands).toEqual([])
  expect((await readdir((await instance()).folder)).filter((name) => name.startsWith('command-'))).toEqual([])
})

test('a port is reached where this machine is', async () => {
  const { backend, create } = await setup()
  await create()
  expect(await backend.previewUrl(REF, 3000, CALL)).toBe('http://127.0.0.1:3000')
})

async function namesOf(members: { pid: number }[]): Promise<string[]> {
  const names = await Promise.all(members.map(({ pid }) => readFile(`/proc/${pid}/comm`, 'utf8').catch(() => '')))
  return names.map((name) => name.trim()).sort()
}
