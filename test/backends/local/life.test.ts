import { spawn } from 'node:child_process'
import { mkdir, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import { outputFile } from '../../../src/backends/local/agent-files.ts'
import { openLocalBackend } from '../../../src/backends/local/backend.ts'
import { makeHome, withLock } from '../../../src/backends/local/home.ts'
import { findSupervisor, type Instance, readStarted } from '../../../src/backends/local/instance.ts'
import { findMembers } from '../../../src/backends/local/processes.ts'
import { isAlive } from '../../../src/process-identity.ts'
import {
  CALL,
  COUNTING,
  FIRST_LIFE,
  HOME_ID,
  IDLING,
  isGone,
  OWN,
  REF,
  SANDBOX,
  setup,
  sh,
  terminated,
  WAYS,
  wanted,
} from './setup.ts'

describe.each(WAYS)('%s', (_way, cgroups) => {
  test('a sandbox is found again, and runs on, after the process that made it was killed', async () => {
    const { folder, backend, output } = await setup({ cgroups })
    const script = `
      const { openLocalBackend } = await import(${JSON.stringify(path.resolve('src/backends/local/backend.ts'))})
      const backend = openLocalBackend(${JSON.stringify({ folder, fleet: 'test', cgroups })})
      await backend.create(${JSON.stringify(wanted(COUNTING))}, { signal: new AbortController().signal })
      console.log('made')
      setInterval(() => {}, 1000)`
    const worker = spawn(process.execPath, ['--input-type=module', '-e', script], {
      stdio: ['ignore', 'pipe', 'inherit'],
    })
    onTestFinished(() => void worker.kill('SIGKILL'))
    await new Promise((resolve) => worker.stdout.once('data', resolve))
    worker.kill('SIGKILL')
    await new Promise((resolve) => worker.once('exit', resolve))

    expect(await backend.find(SANDBOX, CALL)).toEqual([{ ref: REF, life: FIRST_LIFE }])
    expect(await backend.look(REF, CALL)).toEqual({ is: 'running', incarnation: FIRST_LIFE })
    const before = (await output()).length
    await expect.poll(async () => (await output()).length).toBeGreaterThan(before)
    expect(await backend.agentStatus(OWN, CALL)).toEqual({ is: 'running' })
  })

  test('ending leaves no process, no folder and no cgroup, whatever the processes did to hide', async () => {
    const { backend, create, instance, folder } = await setup({ cgroups })
    const target = await create(sh('(setsid sleep 1000 &) ; setsid setsid sleep 1000 & trap "" TERM; sleep 1000'), {
      spec: { agent: { command: sh('setsid sleep 1000 & trap "" TERM; sleep 1000'), sidecar: { command: IDLING } } },
    })
    const made = await instance()
    await expect.poll(async () => (await findMembers(made)).length).toBe(4)
    const pids = [(await findSupervisor(made))?.pid ?? 0, ...(await findMembers(made)).map(({ pid }) => pid)]

    await backend.end(target, CALL)

    expect(await Promise.all(pids.map(isGone))).toEqual(pids.map(() => true))
    expect(await backend.look(REF, CALL)).toEqual({ is: 'absent' })
    expect(await readdir(path.join(folder, 'test', 'instances'))).toEqual([])
    for (const cgroup of Object.values(made.labels.cgroups)) await expect(stat(cgroup)).rejects.toThrow('ENOENT')
    await backend.end(target, CALL)
    await backend.end({ ref: REF, incarnation: null }, CALL)
  })

  test('what has left its parents is known by its mark, however much stands before that in its environment', async () => {
    const { backend, create, instance } = await setup({ cgroups })
    const env = { LARGE: 'x'.repeat(20_000) }
    const target = await create([], { spec: { agent: { command: sh('(setsid sleep 1000 &)'), env } } })
    await expect.poll(() => backend.agentStatus(OWN, CALL)).toEqual(terminated(0, null))
    const members = await findMembers(await instance())
    expect(members.map(({ part }) => part)).toEqual(['agent'])
    await backend.end(target, CALL)
    expect(await Promise.all(members.map(({ pid }) => isGone(pid)))).toEqual([true])
  })

  test.each([
    ['', IDLING],
    [', also without its mark', sh('exec env -i sleep 1000')],
  ])(
    'a sandbox whose supervisor was killed is lost, says what still runs, and is ended with it%s',
    async (_how, agent) => {
      const { backend, create, instance, folder } = await setup({ cgroups })
      const target = await create(agent)
      await expect.poll(async () => nameOf(await agentOf(await instance()))).toBe('sleep')
      const pid = await agentOf(await instance())
      process.kill((await findSupervisor(await instance()))?.pid ?? 0, 'SIGKILL')
      await expect
        .poll(() => backend.look(REF, CALL))
        .toEqual({ is: 'lost', why: `the supervisor of ${REF} is gone, but 1 of its processes still runs` })
      await expect(backend.run(target, 'true', CALL)).rejects.toMatchObject({ type: 'sandbox_expired' })
      expect(await backend.create(wanted(agent), CALL)).toEqual({ ref: REF })
      expect((await backend.look(REF, CALL)).is).toBe('lost')
      expect(await isGone(pid)).toBe(false)

      await backend.end({ ref: REF, incarnation: null }, CALL)
      expect(await isGone(pid)).toBe(true)
      expect(await backend.look(REF, CALL)).toEqual({ is: 'absent' })
      expect(await readdir(path.join(folder, 'test', 'instances'))).toEqual([])
    },
  )
})

const agentOf = async (instance: Instance) => (await readStarted(instance))?.agent?.pid ?? 0
const nameOf = async (pid: number) => (await readFile(`/proc/${pid}/comm`, 'utf8')).trim()

test('the same life asked for many times at once is one sandbox with one supervisor and one agent', async () => {
  const { folder, backend, output } = await setup()
  const others = Array.from({ length: 5 }, () => openLocalBackend({ folder, fleet: 'test' }))
  const refs = await Promise.all(
    [backend, ...others].map((each) => each.create(wanted(sh('echo once; sleep 1000')), CALL)),
  )
  expect(new Set(refs.map(({ ref }) => ref))).toEqual(new Set([REF]))
  await expect.poll(() => output()).toBe('once\n')
})

test('what a signal ended says which, and a sandbox outlives its agent', async () => {
  const { backend, create, instance } = await setup()
  const target = await create(IDLING)
  process.kill((await readStarted(await instance()))?.agent?.pid ?? 0, 'SIGTERM')
  await expect.poll(() => backend.agentStatus(OWN, CALL)).toEqual(terminated(null, 'SIGTERM'))
  expect(await backend.look(REF, CALL)).toEqual({ is: 'running', incarnation: target.incarnation })
})

test('an agent that cannot be started has ended with 127, and the log says why', async () => {
  const { backend, create, output } = await setup()
  await create(['/no/such/program'])
  await expect.poll(() => backend.agentStatus(OWN, CALL)).toEqual(terminated(127, null))
  expect(await output()).toContain('/no/such/program')
})

test('an agent whose command or environment the system does not take has ended with 126, and the log says why', async () => {
  const { backend, create, output } = await setup()
  const env = { LARGE: 'ö'.repeat(70_000) }
  const target = await create([], { spec: { agent: { command: IDLING, env, sidecar: { command: IDLING, env } } } })
  await expect.poll(() => backend.agentStatus(OWN, CALL)).toEqual(terminated(126, null))
  expect(await output()).toContain('E2BIG')
  expect((await backend.look(REF, CALL)).is).toBe('running')
  expect(await backend.run(target, 'true', CALL)).toEqual({ exitCode: 126, output: expect.stringContaining('E2BIG') })
})

test('a template is refused, and nothing is made', async () => {
  const { backend } = await setup()
  const creating = backend.create(wanted(IDLING, { spec: { template: 'node' } }), CALL)
  await expect(creating).rejects.toMatchObject({
    type: 'spec_invalid',
    message: expect.stringContaining('has no templates'),
  })
  expect(await backend.find(SANDBOX, CALL)).toEqual([])
})

test('an agent that was merely killed was not killed for its memory', async () => {
  const { backend, create, instance } = await setup()
  await create(IDLING)
  const made = await instance()
  process.kill((await readStarted(made))?.agent?.pid ?? 0, 'SIGKILL')
  await expect
    .poll(() => backend.agentStatus(OWN, CALL))
    .toEqual({
      ...{ is: 'terminated', exitCode: null, signal: 'SIGKILL' },
      oomKilled: made.labels.cgroups.memory ? false : undefined,
    })
})

test('nothing of the environment of the worker gets in, and what was asked for does', async () => {
  const { backend, create, output } = await setup()
  process.env.DATABASE_URL = 'postgres://secret'
  onTestFinished(() => void delete process.env.DATABASE_URL)
  const target = await create([], {
    spec: { agent: { command: ['env'], env: { TOKEN: 'given', PATH: '/bin:/usr/bin' } } },
  })
  await expect.poll(() => backend.agentStatus(OWN, CALL)).toEqual(terminated(0, null))
  const names = (await output()).split('\n').map((line) => line.split('=')[0])
  expect(names.sort().filter((name) => name && !['_', 'PWD', 'OLDPWD', 'SHLVL'].includes(name))).toEqual([
    'HOME',
    'LANG',
    'PATH',
    'SANDMAN_INSTANCE',
    'SANDMAN_PART',
    'TOKEN',
  ])
  expect(await output()).toContain('PATH=/bin:/usr/bin\n')
  expect((await backend.run(target, 'echo $TOKEN-$DATABASE_URL', CALL)).output).toBe('given-\n')
})

test('secrets are readable by nobody else', async () => {
  const { create, instance } = await setup()
  await create()
  const { folder } = await instance()
  const modes = [folder, path.join(folder, 'instance.json'), outputFile(folder, undefined)].map(
    async (file) => (await stat(file)).mode & 0o077,
  )
  expect(await Promise.all(modes)).toEqual([0, 0, 0])
})

test('what the terminal of a worker sends does not reach a sandbox', async () => {
  const { backend, create, instance } = await setup()
  await create()
  const supervisor = await findSupervisor(await instance())
  for (const signal of ['SIGINT', 'SIGHUP'] as const) process.kill(supervisor?.pid ?? 0, signal)
  expect((await backend.look(REF, CALL)).is).toBe('running')
  const members = (await findMembers(await instance())).map(({ pid }) => pid)
  process.kill(supervisor?.pid ?? 0, 'SIGTERM') // that is meant for it
  await expect.poll(async () => (await backend.look(REF, CALL)).is).toBe('lost')
  expect(await Promise.all(members.map(isGone))).toEqual(members.map(() => true))
})

test('a sandbox whose folder somebody removed by hand ends with it', async () => {
  const { create, instance } = await setup()
  await create()
  const made = await instance()
  const supervisor = await findSupervisor(made)
  const pids = [supervisor?.pid ?? 0, ...(await findMembers(made)).map(({ pid }) => pid)]
  onTestFinished(() => pids.filter((pid) => isAlive(pid)).forEach((pid) => void process.kill(pid, 'SIGKILL')))
  await rm(made.folder, { recursive: true })
  await expect.poll(() => Promise.all(pids.map(isGone)), { timeout: 20_000 }).toEqual(pids.map(() => true))
  for (const cgroup of Object.values(made.labels.cgroups)) await expect(stat(cgroup)).rejects.toThrow('ENOENT')
})

test('a sandbox whose maker was killed before there was a supervisor is finished by the next who asks', async () => {
  const { backend, create, instance, output } = await setup()
  await create(sh('echo hello; sleep 1000'))
  const { folder, supervisorLock } = await instance()
  // As far as a maker comes that is killed right after the folder was there.
  process.kill((await findSupervisor(await instance()))?.pid ?? 0, 'SIGKILL')
  const orphans = await findMembers(await instance())
  await Promise.all(['started.json', 'agents/agent/output.log'].map((file) => rm(path.join(folder, file))))
  await expect.poll(() => backend.look(REF, CALL)).toMatchObject({ is: 'lost' })
  await rm(supervisorLock)
  expect(await backend.look(REF, CALL)).toMatchObject({ is: 'changing' })

  await create(sh('echo hello; sleep 1000'))
  expect((await backend.look(REF, CALL)).is).toBe('running')
  await expect.poll(() => output()).toBe('hello\n')
  expect(await Promise.all(orphans.map(({ pid }) => isGone(pid)))).toEqual(orphans.map(() => true))
})

test('of supervisors that are started at once, by workers that do not know of each other, one stays', async () => {
  const { create, instance, output } = await setup()
  await create(sh('echo once; sleep 1000'))
  const { folder, supervisorLock } = await instance()
  process.kill((await findSupervisor(await instance()))?.pid ?? 0, 'SIGKILL')
  await Promise.all(
    [path.join(folder, 'started.json'), outputFile(folder, undefined), supervisorLock].map((file) => rm(file)),
  )

  const program = path.resolve('src/backends/local/supervisor.ts')
  const started = Array.from({ length: 3 }, () => spawn(process.execPath, [program, folder], { stdio: 'ignore' }))
  onTestFinished(() => started.forEach((each) => void each.kill('SIGKILL')))
  await expect.poll(() => started.filter(({ exitCode }) => exitCode === 0).length, { timeout: 10_000 }).toBe(2)
  await expect.poll(() => output()).toBe('once\n')
  const [stays] = started.filter(({ exitCode }) => exitCode === null)
  await expect.poll(async () => (await findSupervisor(await instance()))?.pid).toBe(stays?.pid)
})

test('a supervisor that cannot start is a failure that says why, and not a sandbox that starts for ever', async () => {
  const { backend, create, instance } = await setup()
  await create()
  const { folder } = await instance()
  process.kill((await findSupervisor(await instance()))?.pid ?? 0, 'SIGKILL')
  await rm(path.join(folder, 'started.json'))
  await mkdir(path.join(folder, 'started.json')) // which nobody can write
  await expect(backend.create(wanted(), CALL)).rejects.toMatchObject({ type: 'sandbox_unreachable' })
})

test('another fleet sees and touches nothing', async () => {
  const { folder, backend, create } = await setup()
  const target = await create()
  const other = openLocalBackend({ folder, fleet: 'other' })
  expect(await other.find(SANDBOX, CALL)).toEqual([])
  const outside = `../../test/instances/${REF}`
  expect(await other.look(outside, CALL)).toEqual({ is: 'absent' })
  await other.end({ ref: outside, incarnation: target.incarnation }, CALL)
  await expect(other.run({ ...target, ref: outside }, 'true', CALL)).rejects.toMatchObject({ type: 'sandbox_expired' })
  expect((await backend.look(REF, CALL)).is).toBe('running')
})

test('a sandbox of another machine, or of another folder, is not said to be gone: nobody here can know', async () => {
  const { backend, create } = await setup()
  const target = await create()
  const elsewhere = (await setup({ homeId: 'decaf000' })).backend
  const unknown = { type: 'sandbox_unreachable', message: expect.stringContaining('another machine') }
  await expect(elsewhere.look(REF, CALL)).rejects.toMatchObject(unknown)
  await expect(elsewhere.end(target, CALL)).rejects.toMatchObject(unknown)
  const { pausing } = elsewhere
  if (pausing === 'none') return expect.unreachable()
  await expect(
    pausing.resume({ ref: REF, checkpointRef: undefined }, { key: 'op', ttlMs: 1 }, CALL),
  ).rejects.toMatchObject(unknown)
  await expect(pausing.verify(`${REF}.op_1`, CALL)).rejects.toMatchObject(unknown)
  expect((await backend.look(REF, CALL)).is).toBe('running')
})

test('labels that cannot be read are not a sandbox that is gone', async () => {
  const { backend, create, instance } = await setup()
  const target = await create()
  const file = path.join((await instance()).folder, 'instance.json')
  const labels = await readFile(file)
  onTestFinished(() => writeFile(file, labels))
  await writeFile(file, '{"fleet":')
  const unreachable = { type: 'sandbox_unreachable' }
  await expect(backend.look(REF, CALL)).rejects.toMatchObject(unreachable)
  await expect(backend.find(SANDBOX, CALL)).rejects.toMatchObject(unreachable)
  await expect(backend.end(target, CALL)).rejects.toMatchObject(unreachable)
  await writeFile(file, labels)
})

test('a folder without labels hides none but the one that it may be', async () => {
  const { backend, create, folder } = await setup()
  await create()
  const other = `sbx_${'b'.repeat(26)}`
  await mkdir(path.join(folder, 'test', 'instances', `${HOME_ID}.${other}.${FIRST_LIFE}`))
  expect(await backend.find(SANDBOX, CALL)).toEqual([{ ref: REF, life: FIRST_LIFE }])
  await expect(backend.find(other, CALL)).rejects.toMatchObject({ type: 'sandbox_unreachable' })
})

test('a call that was given up waits for nothing', async () => {
  const { backend, create, folder } = await setup()
  const target = await create()
  const lock = JSON.stringify({ pid: process.pid, born: (await readFile('/proc/self/stat', 'utf8')).split(' ')[21] })
  await writeFile(path.join(folder, 'test', 'locks', REF), lock)
  const giving = new AbortController()
  const ending = backend.end(target, { signal: giving.signal })
  giving.abort(new Error('enough'))
  await expect(ending).rejects.toThrow('enough')
  expect((await backend.look(REF, CALL)).is).toBe('running')
  await rm(path.join(folder, 'test', 'locks', REF))
})

test('those who wait for the same sandbox take turns, and who gives up keeps nobody waiting', async () => {
  const home = await makeHome((await setup()).folder, 'test')
  const { promise: gate, resolve: open } = Promise.withResolvers<void>()
  const giving = new AbortController()
  const done: string[] = []
  const first = withLock(home, REF, CALL, () => gate.then(() => void done.push('first')))
  const second = withLock(home, REF, giving, async () => void done.push('second'))
  const third = withLock(home, REF, CALL, async () => void done.push('third'))
  giving.abort(new Error('enough'))
  await expect(second).rejects.toThrow('enough')
  open()
  await Promise.all([first, third])
  expect(done).toEqual(['first', 'third'])
})
