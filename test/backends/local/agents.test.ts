import { spawn } from 'node:child_process'
import { mkdir, readdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Agent, Pausing } from '../../../src/backends/backend.ts'
import { agentFolder, agentStartedFile, readAgentStarted } from '../../../src/backends/local/agent-files.ts'
import { openLocalBackend } from '../../../src/backends/local/backend.ts'
import { findSupervisor, type Instance, readStarted } from '../../../src/backends/local/instance.ts'
import { findMembers } from '../../../src/backends/local/processes.ts'
import {
  type Bench,
  CALL,
  COUNTING,
  FIRST_LIFE,
  IDLING,
  isGone,
  KEY,
  OTHER_KEY,
  OWN,
  REF,
  SANDBOX,
  setup,
  sh,
  stateOf,
  terminated,
  WAYS,
} from './setup.ts'

const HUNGRY = [process.execPath, '-e', 'const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))']
const pausingOf = ({ backend }: Bench) => backend.pausing as Pausing
const pidOf = async (instance: Instance, key: string) =>
  (await readAgentStarted(instance.folder, key))?.process?.pid ?? expect.unreachable()
const membersOf = async (bench: Bench, part: string) =>
  (await findMembers(await bench.instance())).filter((member) => member.part === part)

async function pause(bench: Bench): Promise<string> {
  const target = await bench.running(REF)
  const { checkpointRef } = await pausingOf(bench).suspend(target, { key: 'op_pause' }, CALL)
  return checkpointRef ?? expect.unreachable()
}

const resume = (bench: Bench, checkpointRef: string) =>
  pausingOf(bench).resume({ ref: REF, checkpointRef }, { key: 'op_resume', ttlMs: 60_000 }, CALL)

describe.each(WAYS)('%s', (_way, cgroups) => {
  test('an agent runs where its sandbox is, and its output and its end are kept, apart from the others', async () => {
    const bench = await setup({ cgroups })
    const env = { TOKEN: 'given' }
    await bench.create([], { spec: { agent: { command: sh('echo own; exit 3'), env } } })
    const agent = await bench.start(sh('pwd; echo $TOKEN-$SANDMAN_PART; echo oops >&2; exit 7'))
    await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(7, null))
    expect(await bench.output(KEY)).toBe(`${(await bench.instance()).workspace}\ngiven-${KEY}\noops\n`)
    expect(await bench.backend.agentStatus(OWN, CALL)).toEqual(terminated(3, null))
    expect(await bench.output()).toBe('own\n')
  })

  test('one that is killed has ended alone', async () => {
    const bench = await setup({ cgroups })
    await bench.create([], { spec: { agent: { command: IDLING, sidecar: { command: IDLING } } } })
    const [killed, other] = [await bench.start(IDLING), await bench.start(IDLING, OTHER_KEY)]
    const instance = await bench.instance()
    process.kill(await pidOf(instance, KEY), 'SIGKILL')
    await expect
      .poll(() => bench.backend.agentStatus(killed, CALL))
      .toEqual({
        ...{ is: 'terminated', exitCode: null, signal: 'SIGKILL' },
        oomKilled: instance.labels.cgroups.memory ? false : undefined,
      })
    for (const agent of [other, OWN]) expect(await bench.backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
    expect(await stateOf((await readStarted(instance))?.sidecar?.pid ?? 0)).toBe('S')
  })

  test('one that is asked to end may do so in its own way', async () => {
    const bench = await setup({ cgroups })
    await bench.create()
    const agent = await bench.start(
      sh('trap "echo bye; exit 4" TERM; mkfifo pipe; exec 3<>pipe; echo ready; read x <&3'),
    )
    const other = await bench.start(IDLING, OTHER_KEY)
    await expect.poll(() => bench.output(KEY)).toBe('ready\n')
    await bench.backend.stopAgent(agent, CALL)
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(4, null))
    expect(await bench.output(KEY)).toBe('ready\nbye\n')
    await bench.backend.stopAgent(agent, CALL)
    for (const left of [other, OWN]) expect(await bench.backend.agentStatus(left, CALL)).toEqual({ is: 'running' })
  })

  test('one that does not want to end is killed, with all that it has started', async () => {
    const bench = await setup({ cgroups })
    await bench.create()
    const stubborn = 'trap "" TERM; (setsid sleep 1000 &); sleep 1000 & echo ready; sleep 1000'
    const agent = await bench.start(sh(stubborn))
    await expect.poll(async () => (await membersOf(bench, KEY)).length).toBe(4)
    const members = await membersOf(bench, KEY)
    await bench.backend.stopAgent(agent, CALL)
    expect(await Promise.all(members.map(({ pid }) => isGone(pid)))).toEqual(members.map(() => true))
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(null, 'SIGKILL'))
    expect(await bench.backend.agentStatus(OWN, CALL)).toEqual({ is: 'running' })
  })

  test('what an ended one has left running ends with it', async () => {
    const bench = await setup({ cgroups })
    await bench.create()
    const agent = await bench.start(sh('sleep 1000 & (setsid sleep 1000 &)'))
    await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(0, null))
    await expect.poll(async () => (await membersOf(bench, KEY)).length).toBe(2)
    await bench.backend.stopAgent(agent, CALL)
    expect(await membersOf(bench, KEY)).toEqual([])
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(0, null))
  })

  test('the one that the sandbox was made with is stopped alone, too', async () => {
    const bench = await setup({ cgroups })
    await bench.create([], { spec: { agent: { command: sh('sleep 1000; :'), sidecar: { command: IDLING } } } })
    const agent = await bench.start(IDLING)
    await bench.backend.stopAgent(OWN, CALL)
    expect(await bench.backend.agentStatus(OWN, CALL)).toEqual(terminated(null, 'SIGTERM'))
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
    expect((await membersOf(bench, 'sidecar')).length).toBe(1)
  })

  test('what hides from its mark is still the agent that it is', async () => {
    const bench = await setup({ cgroups })
    await bench.create()
    const agents = [
      await bench.start(['env', '-i', 'sleep', '1000']),
      // Where cgroups are, this is the name of something else in there, and none of its own can be made.
      await bench.start(['env', '-i', 'sleep', '1000'], 'cgroup.procs'),
    ]
    const instance = await bench.instance()
    const named = async (key: string) => (await readFile(`/proc/${await pidOf(instance, key)}/comm`, 'utf8')).trim()
    for (const { key } of agents) await expect.poll(() => named(key ?? '')).toBe('sleep')
    const members = await findMembers(instance)
    expect(members.map(({ part }) => part).sort()).toEqual(['agent', 'cgroup.procs', KEY].sort())
    const isFreezable = instance.labels.cgroups.freezer !== undefined
    expect(members.map(({ isInFreezer }) => isInFreezer)).toEqual(members.map(() => isFreezable))
    for (const agent of agents) await bench.backend.stopAgent(agent, CALL)
    for (const agent of agents)
      expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(null, 'SIGTERM'))
    expect(await bench.backend.agentStatus(OWN, CALL)).toEqual({ is: 'running' })
  })

  test('what has to make room is every agent but the own one, and the sidecar stays, too', async () => {
    const bench = await setup({ cgroups })
    const target = await bench.create([], { spec: { agent: { command: IDLING, sidecar: { command: IDLING } } } })
    const agents = [await bench.start(IDLING), await bench.start(sh('trap "" TERM; sleep 1000; :'), OTHER_KEY)]
    await bench.backend.endLingering(target, CALL)
    const left = (await findMembers(await bench.instance())).map(({ part }) => part)
    expect(left.sort()).toEqual(['agent', 'sidecar'])
    for (const agent of agents)
      expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(null, 'SIGKILL'))
    expect(await bench.backend.agentStatus(OWN, CALL)).toEqual({ is: 'running' })
  })

  test('one that sleeps with its sandbox says so, and goes on where it was', async () => {
    const bench = await setup({ cgroups })
    await bench.create()
    const agent = await bench.start(COUNTING)
    await expect.poll(async () => (await bench.output(KEY)).length).toBeGreaterThan(20)
    const checkpointRef = await pause(bench)
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual({ is: 'asleep' })
    await expect(bench.backend.stopAgent(agent, CALL)).rejects.toMatchObject({ type: 'overtaken' })
    const members = await membersOf(bench, KEY)
    expect(members.length).toBeGreaterThan(0)
    expect(members.filter((one) => !(one.isStopped || one.isInFreezer || one.isWaitingForStopped))).toEqual([])
    const before = await bench.output(KEY)

    await resume(bench, checkpointRef)
    await expect.poll(async () => (await bench.output(KEY)).length).toBeGreaterThan(before.length)
    const lines = (await bench.output(KEY)).split('\n').slice(1, -1).map(Number)
    expect(lines).toEqual(lines.map((_line, at) => at + 1))
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual({
      is: 'restarted',
      why: expect.stringContaining(`${FIRST_LIFE} was meant`),
    })
    await expect(bench.backend.stopAgent(agent, CALL)).rejects.toMatchObject({ type: 'overtaken' })
    const awake = { ...agent, incarnation: 'op_resume' }
    expect(await bench.backend.agentStatus(awake, CALL)).toEqual({ is: 'running' })
    await bench.backend.stopAgent(awake, CALL)
    expect(await bench.backend.agentStatus(awake, CALL)).toEqual(terminated(null, 'SIGTERM'))
  })

  test('ending a sandbox ends every agent', async () => {
    const bench = await setup({ cgroups })
    const target = await bench.create()
    const agents = [await bench.start(sh('(setsid sleep 1000 &); sleep 1000')), await bench.start(IDLING, OTHER_KEY)]
    await expect.poll(async () => (await membersOf(bench, KEY)).length).toBe(3)
    const instance = await bench.instance()
    const members = await findMembers(instance)
    await bench.backend.end(target, CALL)
    expect(await Promise.all(members.map(({ pid }) => isGone(pid)))).toEqual(members.map(() => true))
    for (const cgroup of Object.values(instance.labels.cgroups)) await expect(readdir(cgroup)).rejects.toThrow('ENOENT')
    for (const agent of agents) {
      await expect(bench.backend.agentStatus(agent, CALL)).rejects.toMatchObject({ type: 'sandbox_expired' })
      await expect(bench.backend.stopAgent(agent, CALL)).rejects.toMatchObject({ type: 'sandbox_expired' })
    }
  })
})

test('the same key starts once, however many ask at once, and also after its end', async () => {
  const bench = await setup()
  const target = await bench.create()
  const asked = { key: KEY, command: sh('echo once; exit 5') }
  const others = Array.from({ length: 9 }, () => openLocalBackend({ folder: bench.folder, fleet: 'test' }))
  await Promise.all([bench.backend, ...others].map((each) => each.startAgent(target, asked, CALL)))
  const agent: Agent = { ...target, key: KEY }
  await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(5, null))
  await bench.backend.startAgent(target, asked, CALL)
  await bench.backend.startAgent(target, { key: OTHER_KEY, command: ['true'] }, CALL) // for which it looks again
  expect(await bench.output(KEY)).toBe('once\n')
  expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(5, null))
})

test('a supervisor in the place of one that seems never to have been ready starts nothing again', async () => {
  const bench = await setup()
  await bench.create()
  const agent = await bench.start(sh('echo once; exit 5'))
  await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(5, null))
  const { folder } = await bench.instance()
  process.kill((await findSupervisor(await bench.instance()))?.pid ?? 0, 'SIGKILL')
  await rm(path.join(folder, 'started.json'))
  await bench.create()
  await bench.start(['true'], OTHER_KEY) // for which it looks
  expect(await bench.output(KEY)).toBe('once\n')
  expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(5, null))
})

test('a hundred agents run in one sandbox at once', async () => {
  const bench = await setup()
  await bench.create()
  const keys = Array.from({ length: 100 }, (_, at) => `exe_${at}`)
  const agents = await Promise.all(keys.map((key) => bench.start(sh('echo $SANDMAN_PART; sleep 1000'), key)))
  for (const key of keys) await expect.poll(() => bench.output(key)).toBe(`${key}\n`)
  expect(new Set((await findMembers(await bench.instance())).map(({ part }) => part))).toEqual(
    new Set(['agent', ...keys]),
  )
  for (const agent of agents) expect(await bench.backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
})

test('one that cannot be started has ended as in a shell, and its output says why', async () => {
  const bench = await setup()
  await bench.create()
  const none = await bench.start(['/no/such/program'])
  await expect.poll(() => bench.backend.agentStatus(none, CALL)).toEqual(terminated(127, null))
  expect(await bench.output(KEY)).toContain('/no/such/program')
  const large = await bench.start(['echo', 'ö'.repeat(70_000)], OTHER_KEY)
  await expect.poll(() => bench.backend.agentStatus(large, CALL)).toEqual(terminated(126, null))
  expect(await bench.output(OTHER_KEY)).toContain('E2BIG')
})

test('what cannot be the key of an agent, or its command, is refused', async () => {
  const { backend, create } = await setup()
  const target = await create()
  const refused = { type: 'spec_invalid' }
  for (const key of ['', '..', '../../x', '.hidden', 'a/b', 'agent', 'sidecar', 'command', 'x'.repeat(300)]) {
    await expect(backend.startAgent(target, { key, command: IDLING }, CALL)).rejects.toMatchObject(refused)
    await expect(backend.agentStatus({ ...target, key }, CALL)).rejects.toMatchObject(refused)
    await expect(backend.stopAgent({ ...target, key }, CALL)).rejects.toMatchObject(refused)
  }
  for (const command of [[], ['a\0b']])
    await expect(backend.startAgent(target, { key: KEY, command }, CALL)).rejects.toMatchObject(refused)
  expect(await backend.agentStatus({ ...target, key: KEY }, CALL)).toEqual({ is: 'none' })
})

test('none is started in a sandbox that is not the one that was meant, that sleeps, or that is not there', async () => {
  const bench = await setup()
  const target = await bench.create()
  const asked = { key: KEY, command: IDLING }
  const starting = (ref: string, incarnation: string) => bench.backend.startAgent({ ref, incarnation }, asked, CALL)
  await expect(starting(REF, 'another')).rejects.toMatchObject({ type: 'overtaken' })
  await pause(bench)
  await expect(starting(REF, target.incarnation)).rejects.toMatchObject({ type: 'overtaken' })
  await expect(starting(`${REF}x`, target.incarnation)).rejects.toMatchObject({ type: 'sandbox_expired' })
  expect(await readdir(path.join((await bench.instance()).folder, 'agents'))).toEqual(['agent'])
})

test('a sandbox that begins as a checkpoint begins without agents', async () => {
  const bench = await setup()
  await bench.create()
  await bench.start(IDLING)
  const checkpointRef = await pause(bench)
  const life = `op_${'2'.repeat(26)}`
  const target = await bench.create(IDLING, { sandboxId: SANDBOX, life, checkpointRef })
  expect(await bench.backend.agentStatus({ ...target, key: KEY }, CALL)).toEqual({ is: 'none' })
})

test('how it ended is known although the worker that started it was killed', async () => {
  const bench = await setup()
  const target = await bench.create()
  const script = `
    const { openLocalBackend } = await import(${JSON.stringify(path.resolve('src/backends/local/backend.ts'))})
    const backend = openLocalBackend(${JSON.stringify({ folder: bench.folder, fleet: 'test' })})
    const asked = { key: '${KEY}', command: ['sh', '-c', 'until [ -e go ]; do sleep 0.01; done; echo gone; exit 6'] }
    await backend.startAgent(${JSON.stringify(target)}, asked, { signal: new AbortController().signal })
    console.log('started')
    setInterval(() => {}, 1000)`
  const worker = spawn(process.execPath, ['--input-type=module', '-e', script], {
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(() => void worker.kill('SIGKILL'))
  await new Promise((resolve) => worker.stdout.once('data', resolve))
  worker.kill('SIGKILL')
  await new Promise((resolve) => worker.once('exit', resolve))

  const agent = { ...target, key: KEY }
  expect(await bench.backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
  await writeFile(path.join((await bench.instance()).workspace, 'go'), '')
  await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(6, null))
  expect(await bench.output(KEY)).toBe('gone\n')
})

/** What a worker leaves that is killed before it could tell the supervisor. */
async function wantOnly(bench: Bench, command: string[]): Promise<Agent> {
  const { folder } = await bench.instance()
  const draft = path.join(folder, 'agents', '.draft')
  await mkdir(draft)
  await writeFile(path.join(draft, 'output.log'), '')
  await writeFile(path.join(draft, 'wanted.json'), JSON.stringify({ command }))
  await rename(draft, agentFolder(folder, KEY))
  return { ...OWN, key: KEY }
}

describe('one that was wanted by a worker that was killed before it could say so', () => {
  test('is started all the same', async () => {
    const bench = await setup()
    await bench.create()
    const agent = await wantOnly(bench, sh('echo once; exit 5'))
    await expect.poll(() => bench.output(KEY), { timeout: 10_000 }).toBe('once\n')
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual(terminated(5, null))
  })

  test('is started before the sandbox is frozen, and not while it sleeps', async () => {
    const bench = await setup({ cgroups: false })
    await bench.create()
    await wantOnly(bench, COUNTING)
    await pause(bench)
    const members = await membersOf(bench, KEY)
    expect(members.length).toBeGreaterThan(0)
    expect(members.filter((one) => !(one.isStopped || one.isWaitingForStopped))).toEqual([])
  })

  test.each([
    ['is not started after it was stopped', (bench: Bench, agent: Agent) => bench.backend.stopAgent(agent, CALL)],
    ['does not linger, either', (bench: Bench, agent: Agent) => bench.backend.endLingering(agent, CALL)],
  ])('%s', async (_what, end) => {
    const bench = await setup()
    await bench.create()
    const agent = await wantOnly(bench, IDLING)
    await end(bench, agent)
    expect((await bench.backend.agentStatus(agent, CALL)).is).toBe('terminated')
    expect(await membersOf(bench, KEY)).toEqual([])
  })
})

test('a start that is given up ends with the reason', async () => {
  const bench = await setup()
  const target = await bench.create()
  const giving = new AbortController()
  const starting = bench.backend.startAgent(target, { key: KEY, command: IDLING }, { signal: giving.signal })
  giving.abort(new Error('enough'))
  await expect(starting).rejects.toThrow('enough')
})

describe('when the supervisor was killed', () => {
  async function orphan({ isRecorded }: { isRecorded: boolean }) {
    const bench = await setup()
    const target = await bench.create()
    const agent = await bench.start(IDLING)
    const instance = await bench.instance()
    const pid = await pidOf(instance, KEY)
    const supervisor = await findSupervisor(instance)
    process.kill(supervisor?.pid ?? 0, 'SIGKILL')
    await expect.poll(() => isGone(supervisor?.pid ?? 0)).toBe(true)
    if (!isRecorded) await rm(agentStartedFile(instance.folder, KEY))
    return { bench, target, agent, pid }
  }

  test.each([
    ['runs on, and nobody can say how it ended', true],
    ['was not even written down runs on as well', false],
  ])('an agent that %s', async (_what, isRecorded) => {
    const { bench, agent, pid } = await orphan({ isRecorded })
    expect(await bench.backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
    process.kill(pid, 'SIGKILL')
    await expect
      .poll(() => bench.backend.agentStatus(agent, CALL))
      .toEqual({ is: 'terminated', exitCode: null, signal: null, oomKilled: undefined })
  })

  test('an agent can still be stopped, and none be started', async () => {
    const { bench, target, agent, pid } = await orphan({ isRecorded: true })
    const starting = bench.backend.startAgent(target, { key: OTHER_KEY, command: IDLING }, CALL)
    await expect(starting).rejects.toMatchObject({ type: 'sandbox_expired' })
    await bench.backend.stopAgent(agent, CALL)
    expect(await isGone(pid)).toBe(true)
  })
})

describe('where the system counts memory', () => {
  test('of two agents, the one that was killed for its memory says so, and the other was merely killed', async ({
    skip,
  }) => {
    const bench = await setup()
    await bench.create(IDLING, {
      spec: { agent: { command: IDLING }, limits: { memoryBytesMax: 100 << 20 } },
    })
    const instance = await bench.instance()
    skip(instance.labels.cgroups.memory === undefined, 'this machine lets nobody limit memory')
    const modest = await bench.start(IDLING)
    const hungry = await bench.start(HUNGRY, OTHER_KEY)
    await expect
      .poll(() => bench.backend.agentStatus(hungry, CALL), { timeout: 30_000 })
      .toEqual({ is: 'terminated', exitCode: null, signal: 'SIGKILL', oomKilled: true })
    for (const agent of [modest, OWN]) expect(await bench.backend.agentStatus(agent, CALL)).toEqual({ is: 'running' })
    process.kill(await pidOf(instance, KEY), 'SIGKILL')
    process.kill((await readStarted(instance))?.agent?.pid ?? 0, 'SIGKILL')
    for (const agent of [modest, OWN]) {
      await expect
        .poll(() => bench.backend.agentStatus(agent, CALL))
        .toEqual({ is: 'terminated', exitCode: null, signal: 'SIGKILL', oomKilled: false })
    }
  })

  test('an agent that has no cgroup of its own does not claim to know why it was killed', async () => {
    const bench = await setup()
    await bench.create()
    const agent = await bench.start(IDLING, 'cgroup.procs')
    process.kill(await pidOf(await bench.instance(), 'cgroup.procs'), 'SIGKILL')
    await expect
      .poll(() => bench.backend.agentStatus(agent, CALL))
      .toEqual({ is: 'terminated', exitCode: null, signal: 'SIGKILL', oomKilled: undefined })
  })
})

test('the cgroup of an agent is there for as long as something is in it', async ({ skip }) => {
  const bench = await setup()
  await bench.create()
  const { freezer } = (await bench.instance()).labels.cgroups
  if (!freezer) return skip('this machine lets nobody make any')
  const agent = await bench.start(sh('(setsid sleep 1000 &)'))
  await bench.start(['true'], OTHER_KEY)
  await expect.poll(() => readdir(freezer)).not.toContain(OTHER_KEY)
  await expect.poll(() => bench.backend.agentStatus(agent, CALL)).toEqual(terminated(0, null))
  expect(await readdir(freezer)).toContain(KEY)
  await bench.backend.stopAgent(agent, CALL)
  await expect.poll(() => readdir(freezer), { timeout: 10_000 }).not.toContain(KEY)
})
