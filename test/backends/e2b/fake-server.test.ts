import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { CommandExitError, Sandbox } from 'e2b'
import { describe, expect, onTestFinished, test } from 'vitest'
import { FakeE2b } from '../../support/e2b/server.ts'
import { movingAmong } from '../../support/machine.ts'
import { listProcesses } from '../../support/process-table.ts'
import { failure, setup, startCounting, stateOf } from './fake-setup.ts'

describe('processes', () => {
  test('run in the home of their sandbox, with what it was given', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create({ envs: { COLOUR: 'red' } })
    const run = sandbox.commands.run.bind(sandbox.commands)
    const home = e2b.folderOf(sandbox.sandboxId)
    const told = await run('pwd; echo $HOME $COLOUR $SIZE $E2B_SANDBOX_ID; echo oh >&2', { envs: { SIZE: '7' } })
    expect(told).toMatchObject({ stdout: `${home}\n${home} red 7 ${sandbox.sandboxId}\n`, stderr: 'oh\n', exitCode: 0 })
    const failed = await run('exit 3').catch((error: unknown) => error)
    expect(failed).toBeInstanceOf(CommandExitError)
    expect(failed).toMatchObject({ exitCode: 3, error: 'exit status 3' })
    await run('mkdir -p deep/down')
    expect(await run('pwd', { cwd: '/home/user/deep/down' })).toMatchObject({ stdout: `${home}/deep/down\n` })
    expect(await failure(run('pwd', { cwd: 'nowhere' }))).toContain('does not exist')
  })

  test('go on when nobody listens, and are followed from where they are', async () => {
    const { create } = await setup()
    const sandbox = await create()
    const script = 'echo first; read line; echo second; read line; echo $line'
    const handle = await sandbox.commands.run(script, { background: true, stdin: true })
    await expect.poll(() => handle.stdout).toBe('first\n')
    await handle.disconnect()
    const again = await sandbox.commands.connect(handle.pid)
    await sandbox.commands.sendStdin(handle.pid, 'x\n')
    await expect.poll(() => again.stdout).toBe('second\n')
    expect(await sandbox.commands.list()).toMatchObject([
      { pid: handle.pid, cmd: '/bin/bash', args: ['-l', '-c', script] },
    ])
    await sandbox.commands.closeStdin(handle.pid)
    expect(await again.wait()).toMatchObject({ exitCode: 0, stdout: 'second\n\n' })
    expect(await sandbox.commands.list()).toEqual([])
  })

  test.each([
    ['are told of for a while after they ended', 30_000, { stdout: '', exitCode: 0 }],
    ['are forgotten at once by an older envd', 0, /NotFoundError.*process with pid \d+ not found/],
  ])('%s', async (_name, exitRetentionMs, expected) => {
    const { create } = await setup({ exitRetentionMs })
    const sandbox = await create()
    const handle = await sandbox.commands.run('echo all', { background: true })
    await handle.wait()
    const late = sandbox.commands.connect(handle.pid).then((handle) => handle.wait())
    if (expected instanceof RegExp) expect(await failure(late)).toMatch(expected)
    else expect(await late).toMatchObject(expected)
  })

  test('die at their deadline, though nobody listens any more', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    expect(await failure(sandbox.commands.run('sleep 100', { timeoutMs: 200 }))).toContain('TimeoutError')
    await expect.poll(() => e2b.requests.at(-1)).toMatchObject({ route: 'start', status: 200 })
    await expect.poll(() => sandbox.commands.list()).toEqual([])
  })

  test('are signalled one by one: what they have started lives on, and is in no list', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    const handle = await sandbox.commands.run('setsid sleep 100 & echo $!; wait', { background: true })
    await expect.poll(() => handle.stdout).toMatch(/^\d+\n$/)
    expect(await handle.kill()).toBe(true)
    await expect(handle.wait()).rejects.toMatchObject({ exitCode: -1, error: 'signal: killed' })
    expect(await sandbox.commands.kill(handle.pid)).toBe(false)
    expect(await sandbox.commands.list()).toEqual([])
    expect(e2b.pidsOf(sandbox.sandboxId)).toEqual([Number(handle.stdout)])
  })

  test('that write faster than somebody reads are held up, and lose nothing', async () => {
    const { create } = await setup()
    const sandbox = await create()
    const { stdout } = await sandbox.commands.run('head -c 1000000 /dev/zero | tr "\\0" x')
    expect(stdout.length).toBe(1_000_000)
  })
})

describe('a paused sandbox', () => {
  test('stands still with all that it has started, and goes on in the same processes', async () => {
    const { e2b, create, info } = await setup()
    const sandbox = await create()
    const id = sandbox.sandboxId
    await sandbox.commands.run('(setsid sleep 100 > /dev/null 2>&1 &)')
    const counting = await startCounting(sandbox)
    const { startedAt } = await info(id)

    expect(await sandbox.pause()).toBe(true)
    const pids = e2b.pidsOf(id)
    expect(movingAmong(listProcesses().filter(({ pid }) => pids.includes(pid)))).toEqual([])
    expect(pids.length).toBeGreaterThanOrEqual(2)
    const paused = await info(id)
    expect(paused).toMatchObject({ state: 'paused', startedAt })
    expect(paused.endAt.getTime()).toBeLessThanOrEqual(e2b.nowMs)
    expect(await sandbox.isRunning()).toBe(false)
    expect(await failure(sandbox.commands.list())).toContain('TimeoutError')
    expect(await sandbox.pause()).toBe(false)
    expect(await failure(sandbox.setTimeout(1_000))).toContain('SandboxNotFoundError')
    expect(await failure(sandbox.createSnapshot())).toContain('SandboxNotFoundError')

    await sandbox.connect()
    expect(e2b.requests.at(-1)).toMatchObject({ route: 'connect', status: 201 })
    const resumed = await info(id)
    expect(resumed.state).toBe('running')
    expect(resumed.startedAt.getTime()).toBeGreaterThan(startedAt.getTime())
    const again = await sandbox.commands.connect(counting.pid)
    await expect.poll(() => again.stdout.length).toBeGreaterThan(0)
    await again.disconnect()
  })

  test.each([
    ['that kept no memory', { keepMemory: false }, {}],
    ['that is rebooted', {}, { onResume: 'reboot' as const }],
  ])('%s has its files and no processes', async (_name, pausing, resuming) => {
    const { e2b, create } = await setup()
    const sandbox = await create()
    await sandbox.commands.run('echo kept > file')
    await startCounting(sandbox)
    await sandbox.pause(pausing)
    await sandbox.connect(resuming)
    expect(e2b.pidsOf(sandbox.sandboxId)).toEqual([])
    expect(await sandbox.commands.run('cat file')).toMatchObject({ stdout: 'kept\n' })
  })

  test('is resumed by whoever knocks, if it was made so', async () => {
    const { e2b, create } = await setup()
    const sandbox = await create({ lifecycle: { onTimeout: 'pause', autoResume: true } })
    await sandbox.pause()
    expect(await sandbox.isRunning()).toBe(true)
    expect(e2b.stateOf(sandbox.sandboxId)).toBe('running')
  })
})

describe('time', () => {
  test('is five minutes unless said otherwise, only put off by connect, and set by setTimeout', async () => {
    const { e2b, create, info } = await setup()
    const sandbox = await create()
    const leftS = async () => Math.round(((await info(sandbox.sandboxId)).endAt.getTime() - e2b.nowMs) / 10_000) * 10
    expect(await leftS()).toBe(300)
    await sandbox.connect({ timeoutMs: 60_000 })
    expect(e2b.requests.at(-1)).toMatchObject({ route: 'connect', status: 200 })
    expect(await leftS()).toBe(300)
    await sandbox.connect({ timeoutMs: 600_000 })
    expect(await leftS()).toBe(600)
    await sandbox.setTimeout(60_000)
    expect(await leftS()).toBe(60)
    await sandbox.pause()
    await sandbox.connect({ timeoutMs: 30_000 })
    expect(await leftS()).toBe(30)
  })

  test('has an end that counts from the last start', async () => {
    const { e2b, create, info } = await setup({ lifetimeMsMax: 3_600_000 })
    expect(await failure(create({ timeoutMs: 3_601_000 }))).toContain('Timeout cannot be greater than 1 hours')
    const sandbox = await create({ timeoutMs: 3_600_000 })
    await e2b.advance(600_000)
    await sandbox.setTimeout(3_600_000)
    const { startedAt, endAt } = await info(sandbox.sandboxId)
    expect(endAt.getTime() - startedAt.getTime()).toBe(3_600_000)
  })

  test('ends a sandbox when it is over, or pauses it if it was made so', async () => {
    const { e2b, create, info } = await setup()
    const [mortal, sleepy] = [await create(), await create({ lifecycle: { onTimeout: 'pause' } })]
    await startCounting(mortal)
    await e2b.advance(301_000)
    expect(e2b.pidsOf(mortal.sandboxId)).toEqual([])
    expect(await failure(info(mortal.sandboxId))).toContain('SandboxNotFoundError')
    expect(await info(sleepy.sandboxId)).toMatchObject({ state: 'paused', lifecycle: { onTimeout: 'pause' } })
    const quick = await create()
    await quick.setTimeout(-1)
    await expect.poll(() => e2b.stateOf(quick.sandboxId)).toBeUndefined()
  })

  test('does not end what an older pause has left: it shows as paused again, with the old files', async () => {
    const { e2b, create, listAll } = await setup()
    const sandbox = await create()
    await sandbox.commands.run('echo old > file')
    await sandbox.pause()
    await sandbox.connect()
    await sandbox.commands.run('echo new > file')
    await e2b.advance(301_000)
    expect(await listAll()).toMatchObject([{ sandboxId: sandbox.sandboxId, state: 'paused' }])
    await sandbox.connect()
    expect(await sandbox.commands.run('cat file')).toMatchObject({ stdout: 'old\n' })
    expect(await sandbox.kill()).toBe(true)
    expect(e2b.stateOf(sandbox.sandboxId)).toBeUndefined()
  })
})

describe('lists', () => {
  test('are filtered by metadata, by state and by template, the newest first', async () => {
    const { at, create, listAll } = await setup()
    const odd = { 'user id': 'a&b=c', plus: '1+1 %' }
    const first = await create({ metadata: odd })
    const second = await create({ metadata: { plus: '1+1 %' } })
    await second.pause()
    const list = async (query: object) =>
      (await Sandbox.list({ ...at, query }).nextItems()).map(({ sandboxId }) => sandboxId)
    expect((await listAll()).map(({ sandboxId }) => sandboxId)).toEqual([second.sandboxId, first.sandboxId])
    expect(await list({ metadata: odd })).toEqual([first.sandboxId])
    expect(await list({ metadata: { plus: '1+1 %' }, state: ['paused'] })).toEqual([second.sandboxId])
    expect(await list({ metadata: { plus: 'other' } })).toEqual([])
    expect(await list({ template: 'base', state: ['running'] })).toEqual([first.sandboxId])
  })

  test('come in pages, which neither repeat nor forget', async () => {
    const { at, create } = await setup()
    const made = [await create(), await create(), await create()].map(({ sandboxId }) => sandboxId)
    const pages = Sandbox.list({ ...at, limit: 2 })
    const first = await pages.nextItems()
    expect([first.length, pages.hasNext]).toEqual([2, true])
    const all = [...first, ...(await pages.nextItems())].map(({ sandboxId }) => sandboxId)
    expect([all, pages.hasNext]).toEqual([made.toReversed(), false])
  })
})

describe('snapshots', () => {
  test('are what others are made from, and outlive what they were taken of', async () => {
    const { at, create } = await setup()
    const sandbox = await create()
    await sandbox.commands.run('echo copied > file')
    const counting = await startCounting(sandbox)
    const { snapshotId } = await sandbox.createSnapshot()
    const named = await sandbox.createSnapshot({ name: 'mine' })
    expect(snapshotId).toMatch(/^[a-z0-9]{20}:default$/)
    expect(named).toEqual({ snapshotId: 'team/mine:default', names: ['team/mine'] })
    expect((await sandbox.commands.list()).map(({ pid }) => pid)).toEqual([counting.pid])
    const list = (more = {}) => Sandbox.listSnapshots({ ...at, ...more }).nextItems()
    expect((await list({ sandboxId: sandbox.sandboxId })).map((one) => one.snapshotId).sort()).toEqual(
      [snapshotId, named.snapshotId].sort(),
    )
    expect(await list({ name: 'mine' })).toEqual([named])
    await sandbox.kill()

    const copy = await Sandbox.create(snapshotId, at)
    expect(await copy.commands.run('cat file')).toMatchObject({ stdout: 'copied\n' })
    expect(await failure(Sandbox.deleteSnapshot(snapshotId, at))).toContain('there are running sandboxes using it')
    await copy.kill()
    expect(await Sandbox.deleteSnapshot(snapshotId, at)).toBe(true)
    expect(await Sandbox.deleteSnapshot(snapshotId, at)).toBe(false)
    expect(await failure(Sandbox.create(snapshotId, at))).toContain('404: template')
  })
})

test('what is gone, unknown or nonsense is told apart', async () => {
  const { at, create, info } = await setup({ sandboxesMax: 1 })
  const sandbox = await create()
  expect(await failure(create())).toContain('RateLimitError')
  expect(await sandbox.kill()).toBe(true)
  expect(await sandbox.kill()).toBe(false)
  expect(await failure(info(sandbox.sandboxId))).toContain('SandboxNotFoundError')
  expect(await failure(sandbox.pause())).toContain('SandboxNotFoundError')
  expect(await failure(sandbox.connect())).toContain('SandboxNotFoundError: Paused sandbox')
  expect(await failure(sandbox.setTimeout(1))).toContain('SandboxNotFoundError')
  expect(await failure(info('nonsense'))).toBe('SandboxError: 400: Invalid sandbox ID')
  expect(await failure(info(`${sandbox.sandboxId}-6532622b`))).toContain('SandboxNotFoundError')
  expect(await failure(Sandbox.getInfo(sandbox.sandboxId, { ...at, apiKey: 'wrong' }))).toContain('AuthenticationError')
  expect(await failure(Sandbox.create('unheard-of', at))).toContain('404: template')
  expect(await failure(create({ timeoutMs: 0 }))).toContain('400')
})

test('files are read and written below the home', async () => {
  const { e2b, create } = await setup()
  const sandbox = await create()
  await sandbox.files.write('some/file', 'text')
  expect(readFileSync(path.join(e2b.folderOf(sandbox.sandboxId), 'some/file'), 'utf8')).toBe('text')
  writeFileSync(path.join(e2b.folderOf(sandbox.sandboxId), 'other'), 'back')
  expect(await sandbox.files.read('/home/user/other')).toBe('back')
  expect(await failure(sandbox.files.read('missing'))).toContain('NotFoundError')
  expect(await failure(sandbox.files.read('/etc/hostname'))).toContain('not below the home')
})

test('what listens in a sandbox is reached while that runs', async () => {
  const { e2b, create } = await setup()
  const sandbox = await create()
  const inside = createServer((request, response) => response.end(`you asked for ${request.url}`))
  await new Promise<void>((resolve) => inside.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void inside.close())
  const { port } = inside.address() as AddressInfo
  const preview = e2b.previewUrl(sandbox.sandboxId, port)
  expect(await (await fetch(`${preview}/page?x=1`)).text()).toBe('you asked for /page?x=1')
  const closed = await fetch(e2b.previewUrl(sandbox.sandboxId, 1))
  expect([closed.status, await closed.json()]).toMatchObject([502, { port: 1, code: 502 }])
  await sandbox.pause()
  const asleep = await fetch(preview)
  expect([asleep.status, await asleep.json()]).toMatchObject([502, { message: 'The sandbox was not found' }])
})

test('when it has stopped, no process and no folder is left', async () => {
  const e2b = await FakeE2b.start()
  const folders = () => readdirSync(os.tmpdir()).filter((name) => e2b.folderOf('').split('/').includes(name))
  const at = e2b.connection
  const [running, paused] = [await Sandbox.create('base', at), await Sandbox.create('base', at)]
  await running.commands.run('(setsid sleep 100 > /dev/null 2>&1 &)')
  await startCounting(paused)
  await paused.pause()
  const pids = [...e2b.pidsOf(running.sandboxId), ...e2b.pidsOf(paused.sandboxId)]
  expect([pids.length > 1, folders().length]).toEqual([true, 1])
  await e2b.stop()
  expect([pids.map(stateOf), folders()]).toEqual([pids.map(() => undefined), []])
})
