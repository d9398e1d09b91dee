import { spawn } from 'node:child_process'
import { mkdir, readdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { describe, expect, onTestFinished, test } from 'vitest'
import type { Pausing } from '../../../src/backends/backend.ts'
import { openLocalBackend } from '../../../src/backends/local/backend.ts'
import { freeze } from '../../../src/backends/local/freeze.ts'
import { findSupervisor, readStarted } from '../../../src/backends/local/instance.ts'
import { findMembers } from '../../../src/backends/local/processes.ts'
import { type Bench, CALL, COUNTING, FIRST_LIFE, IDLING, isGone, OWN, REF, SANDBOX, setup, sh, WAYS } from './setup.ts'

const FIRST = { key: 'op_pause1' }
const WAKING = { key: 'op_resume1', ttlMs: 60_000 }
const pausingOf = ({ backend }: Bench) => backend.pausing as Pausing
const agentPid = async (bench: Bench) => (await readStarted(await bench.instance()))?.agent?.pid ?? 0

async function pause(bench: Bench, { key } = FIRST): Promise<string> {
  await pausingOf(bench).suspend(await bench.running(REF), { key }, CALL)
  const sighting = await bench.backend.look(REF, CALL)
  return (sighting.is === 'suspended' && sighting.checkpointRef) || expect.unreachable(`it is ${sighting.is}`)
}

/** All of it was seen to be stopped, and nothing comes out of it while another that counts is not. */
async function expectStandstill(bench: Bench): Promise<void> {
  const members = await findMembers(await bench.instance())
  expect(members.length).toBeGreaterThan(0)
  expect(members.filter((one) => !(one.isStopped || one.isInFreezer || one.isWaitingForStopped))).toEqual([])
  const before = await bench.output()
  await countElsewhere(20)
  expect(await bench.output()).toBe(before)
}

/** A clock that runs exactly when a sandbox would. */
async function countElsewhere(linesMin: number): Promise<void> {
  const [program, ...args] = COUNTING
  const counter = spawn(program as string, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  try {
    let lines = 0
    for await (const text of counter.stdout.setEncoding('utf8')) {
      lines += (text as string).split('\n').length - 1
      if (lines >= linesMin) return
    }
  } finally {
    counter.kill('SIGKILL')
  }
}

async function expectCounting(bench: Bench): Promise<void> {
  const before = (await bench.output()).length
  await expect.poll(async () => (await bench.output()).length).toBeGreaterThan(before)
}

describe.each(WAYS)('%s', (_way, cgroups) => {
  test('a paused sandbox stands still, and goes on in the same process', async () => {
    const bench = await setup({ cgroups })
    await bench.create(sh(`(setsid sh -c '${COUNTING[2]}' &); sleep 1000`))
    await expectCounting(bench)
    const pid = await agentPid(bench)

    const checkpointRef = await pause(bench)
    await expectStandstill(bench)
    expect(await bench.backend.find(SANDBOX, CALL)).toEqual([{ ref: REF, life: FIRST_LIFE }])
    expect(await bench.backend.agentStatus(OWN, CALL)).toEqual({ is: 'asleep' })

    await pausingOf(bench).resume({ ref: REF, checkpointRef }, WAKING, CALL)
    expect(await bench.backend.look(REF, CALL)).toEqual({ is: 'running', incarnation: WAKING.key })
    await expectCounting(bench)
    expect(await agentPid(bench)).toBe(pid)
    expect(await isGone(pid)).toBe(false)
    const lines = (await bench.output()).split('\n').slice(1, -1).map(Number)
    expect(lines).toEqual(lines.map((_line, at) => at + 1))
  })

  test('pausing and resuming twice is the same as once', async () => {
    const bench = await setup({ cgroups })
    const { incarnation } = await bench.create(COUNTING)
    const checkpointRef = await pause(bench)
    for (const key of [FIRST.key, 'op_another'])
      await pausingOf(bench).suspend({ ref: REF, incarnation }, { key }, CALL)
    expect(await bench.backend.look(REF, CALL)).toEqual({ is: 'suspended', checkpointRef })
    expect(await readdir(path.join(bench.folder, 'test', 'checkpoints'))).toEqual([checkpointRef])
    for (const key of [WAKING.key, WAKING.key, 'op_another']) {
      await pausingOf(bench).resume({ ref: REF, checkpointRef }, { ...WAKING, key }, CALL)
      expect(await bench.backend.look(REF, CALL)).toEqual({ is: 'running', incarnation: WAKING.key })
    }
    await expectCounting(bench)
    const late = pausingOf(bench).suspend({ ref: REF, incarnation }, { key: 'op_late' }, CALL)
    await expect(late).rejects.toMatchObject({ type: 'overtaken' })
  })

  test('a pause whose worker was killed counts as none, and is finished by the next', async () => {
    const bench = await setup({ cgroups })
    const { incarnation } = await bench.create(COUNTING)
    await leaveHalfPaused(bench, incarnation)
    expect(await bench.backend.look(REF, CALL)).toEqual({ is: 'running', incarnation })
    await pause(bench)
    await expectStandstill(bench)
  })

  test('a pause whose worker was killed can be taken back', async () => {
    const bench = await setup({ cgroups })
    const { incarnation } = await bench.create(COUNTING)
    await leaveHalfPaused(bench, incarnation)
    await pausingOf(bench).resume({ ref: REF, checkpointRef: undefined }, WAKING, CALL)
    expect(await bench.backend.look(REF, CALL)).toEqual({ is: 'running', incarnation })
    await expectCounting(bench)
  })

  test('what was stopped by signal on its way into the freezer goes on, too', async () => {
    const bench = await setup({ cgroups })
    await bench.create(COUNTING)
    const checkpointRef = await pause(bench)
    process.kill(await agentPid(bench), 'SIGSTOP')
    await pausingOf(bench).resume({ ref: REF, checkpointRef }, WAKING, CALL)
    await expectCounting(bench)
  })

  test('processes that are just being started are caught as well, and go on', async () => {
    const bench = await setup({ cgroups })
    await bench.create(sh('i=0; while :; do i=$((i+1)); echo $i; /bin/true; done'))
    for (let time = 1; time <= 15; time++) {
      const checkpointRef = await pause(bench, { key: `op_pause${time}` })
      const before = await bench.output()
      await pausingOf(bench).resume({ ref: REF, checkpointRef }, { ...WAKING, key: `op_resume${time}` }, CALL)
      await expect.poll(async () => (await bench.output()).length).toBeGreaterThan(before.length)
    }
  })

  test('frozen processes that were killed meanwhile are not resumed, and that is said', async () => {
    const bench = await setup({ cgroups })
    await bench.create(COUNTING)
    const checkpointRef = await pause(bench)
    process.kill(await agentPid(bench), 'SIGKILL')
    const resuming = pausingOf(bench).resume({ ref: REF, checkpointRef }, WAKING, CALL)
    await expect(resuming).rejects.toMatchObject({
      type: 'checkpoint_missing',
      message: expect.stringMatching(`processes of .* are gone .* whole in checkpoint ${checkpointRef}`),
    })
    expect(await bench.backend.look(REF, CALL)).toEqual({
      is: 'suspended',
      checkpointRef,
      broken: expect.stringContaining('processes are gone'),
    })
  })

  test('a sandbox that sleeps is ended by who means a sleeping one', async () => {
    const bench = await setup({ cgroups })
    const target = await bench.create(COUNTING)
    const checkpointRef = await pause(bench)
    const members = await findMembers(await bench.instance())
    await expect(bench.backend.end(target, CALL)).rejects.toMatchObject({ type: 'overtaken' })
    await bench.backend.end({ ref: REF, incarnation: null }, CALL)
    expect(await Promise.all(members.map(({ pid }) => isGone(pid)))).toEqual(members.map(() => true))
    expect(await pausingOf(bench).verify(checkpointRef, CALL)).toMatchObject({ is: 'ready' })
    const resuming = pausingOf(bench).resume({ ref: REF, checkpointRef }, WAKING, CALL)
    await expect(resuming).rejects.toMatchObject({ type: 'sandbox_expired' })
  })

  test('a pause that cannot write its checkpoint leaves the sandbox running', async () => {
    const bench = await setup({ cgroups })
    const target = await bench.create(COUNTING)
    // As deep as a folder can be: the way to its copy is longer.
    const { workspace } = await bench.instance()
    const deep = path.join(workspace, `${'x'.repeat(200)}/`.repeat(30)).slice(0, 4_090)
    await mkdir(deep, { recursive: true })
    const suspending = pausingOf(bench).suspend(target, FIRST, CALL)
    await expect(suspending).rejects.toMatchObject({
      type: 'sandbox_unreachable',
      message: expect.stringMatching(/ENAMETOOLONG/),
    })
    expect(await readdir(path.join(bench.folder, 'test', 'checkpoints'))).toEqual([])
    expect(await bench.backend.look(REF, CALL)).toEqual({ is: 'running', incarnation: target.incarnation })
    await expectCounting(bench)
  })

  test('a pause that is given up leaves the sandbox running', async () => {
    const bench = await setup({ cgroups })
    const target = await bench.create(COUNTING)
    await bench.backend.run(target, 'for i in $(seq 200); do echo $i > $i; done', CALL)
    const giving = new AbortController()
    const suspending = pausingOf(bench).suspend(target, FIRST, { signal: giving.signal })
    const { folder } = await bench.instance()
    await expect.poll(() => readFile(path.join(folder, 'life.json'), 'utf8'), { interval: 1 }).toContain('held')
    giving.abort(new Error('enough'))
    await expect(suspending).rejects.toThrow('enough')
    expect((await bench.backend.look(REF, CALL)).is).toBe('running')
    await expectCounting(bench)
    expect(await readdir(path.join(bench.folder, 'test', 'checkpoints'))).toEqual([])
  })
})

test('a sandbox whose agent had ended before is paused and resumed with its sidecar', async () => {
  const bench = await setup()
  await bench.create([], { spec: { agent: { command: ['true'], sidecar: { command: IDLING } } } })
  await expect.poll(async () => (await bench.backend.agentStatus(OWN, CALL)).is).toBe('terminated')
  const checkpointRef = await pause(bench)
  await pausingOf(bench).resume({ ref: REF, checkpointRef }, WAKING, CALL)
  expect((await bench.backend.look(REF, CALL)).is).toBe('running')
})

test('a paused sandbox outlives its worker, but not its supervisor, and says so', async () => {
  const bench = await setup()
  await bench.create(COUNTING)
  const checkpointRef = await pause(bench)
  const supervisor = await findSupervisor(await bench.instance())
  process.kill(supervisor?.pid ?? 0, 'SIGKILL')
  await expect.poll(() => isGone(supervisor?.pid ?? 0)).toBe(true)
  const other = openLocalBackend({ folder: bench.folder, fleet: 'test' })
  expect(await other.look(REF, CALL)).toEqual({
    is: 'suspended',
    checkpointRef,
    broken: expect.stringContaining('processes are gone'),
  })
  const resuming = (other.pausing as Pausing).resume({ ref: REF, checkpointRef }, WAKING, CALL)
  await expect(resuming).rejects.toMatchObject({
    type: 'checkpoint_missing',
    message: expect.stringMatching(/restart of this machine/),
  })
})

test('after a restart of the machine nothing is taken for what had the same pid before', async () => {
  const bench = await setup()
  await bench.create(COUNTING)
  const checkpointRef = await pause(bench)
  const { folder, labels } = await bench.instance()
  await writeFile(path.join(folder, 'instance.json'), JSON.stringify({ ...labels, boot: 'an earlier one' }))
  onTestFinished(() => writeFile(path.join(folder, 'instance.json'), JSON.stringify(labels)))
  const resuming = pausingOf(bench).resume({ ref: REF, checkpointRef }, WAKING, CALL)
  await expect(resuming).rejects.toMatchObject({
    type: 'checkpoint_missing',
    message: expect.stringMatching(/restart of this machine/),
  })
  await writeFile(path.join(folder, 'instance.json'), JSON.stringify(labels))
})

describe.each([
  ['is damaged', damage, 'checkpoint_corrupt', /deep\/file/],
  ['is gone', discard, 'checkpoint_missing', /no checkpoint .*op_pause1/],
] as const)('when the checkpoint %s', (_what, harm, type, message) => {
  test('a sandbox whose processes are alive goes on in them: the copy is not what it is', async () => {
    const bench = await setup()
    const checkpointRef = await pausePrecious(bench)
    await harm(bench, checkpointRef)
    await pausingOf(bench).resume({ ref: REF, checkpointRef }, WAKING, CALL)
    expect(await bench.backend.look(REF, CALL)).toEqual({ is: 'running', incarnation: WAKING.key })
    await expectCounting(bench)
  })

  test('a sandbox whose processes are gone is not resumed, and says which file', async () => {
    const bench = await setup()
    const checkpointRef = await pausePrecious(bench)
    await harm(bench, checkpointRef)
    process.kill(await agentPid(bench), 'SIGKILL')
    for (const known of [checkpointRef, undefined]) {
      const resuming = pausingOf(bench).resume({ ref: REF, checkpointRef: known }, WAKING, CALL)
      await expect(resuming).rejects.toMatchObject({ type, message: expect.stringMatching(message) })
    }
    expect(await bench.backend.look(REF, CALL)).toEqual({
      is: 'suspended',
      checkpointRef,
      broken: expect.stringContaining('processes are gone'),
    })
  })
})

async function pausePrecious(bench: Bench): Promise<string> {
  const target = await bench.create(COUNTING)
  await bench.backend.run(target, 'mkdir -p deep; echo precious > deep/file', CALL)
  return pause(bench)
}

function damage(bench: Bench, checkpointRef: string): Promise<void> {
  const file = path.join(bench.folder, 'test', 'checkpoints', checkpointRef, 'workspace', 'deep', 'file')
  return writeFile(file, 'prec1ous\n')
}

async function discard(bench: Bench, checkpointRef: string): Promise<void> {
  for (const _time of ['once', 'twice']) await pausingOf(bench).discard(checkpointRef, CALL)
}

/** What a worker leaves that is killed after it has frozen the processes and before there is a checkpoint. */
async function leaveHalfPaused(bench: Bench, incarnation: string): Promise<void> {
  const instance = await bench.instance()
  const life = { is: 'awake', incarnation, held: FIRST.key }
  await writeFile(path.join(instance.folder, 'life.json'), JSON.stringify(life))
  await freeze(instance, CALL)
  await expectStandstill(bench)
}
