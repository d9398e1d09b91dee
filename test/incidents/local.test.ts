import { once } from 'node:events'
import { watch } from 'node:fs'
import { readdir, readFile, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import path from 'node:path'
import { expect, test } from 'vitest'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import { makeHome } from '../../src/backends/local/home.ts'
import { findInstance, findSupervisor } from '../../src/backends/local/instance.ts'
import { findMembers } from '../../src/backends/local/processes.ts'
import type { Sandbox } from '../../src/index.ts'
import { forkWorker } from '../support/crash.ts'
import { describeIncident } from '../support/describe-world.ts'
import type { StoreKind } from '../support/stores.ts'
import { loseProcesses, type World } from '../support/world.ts'

/** The incidents that can be shown with real processes, on the local backend. How jobs are kept makes no difference to those. */
const ON: { stores: StoreKind[] } = { stores: ['postgres'] }

const CALL = { signal: new AbortController().signal }
/** Counts in a file that is never half written, and there as soon as the sandbox is said to run. */
const COUNTING = {
  command: ['sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i > next && mv next count; sleep 0.05; done'],
}
const LOCAL = {
  backend: 'local',
  agent: COUNTING,
  wake: { commands: ['until [ -s count ]; do sleep 0.01; done'] },
}

const folderOf = ({ dataFolder, place }: World) => path.join(dataFolder, 'sandboxes', place.fleet)
const backendOf = ({ dataFolder, place }: World) =>
  openLocalBackend({ folder: path.join(dataFolder, 'sandboxes'), fleet: place.fleet })
const lookAt = async (world: World, { providerRef }: Sandbox) => backendOf(world).look(providerRef as string, CALL)
const countOf = async (world: World, { providerRef }: Sandbox) =>
  Number(await readFile(path.join(folderOf(world), 'instances', providerRef as string, 'workspace', 'count'), 'utf8'))

const checkpointsOf = async (world: World, sandboxId: string) =>
  (await readdir(path.join(folderOf(world), 'checkpoints'))).filter((name) => name.includes(sandboxId))

async function freePort(): Promise<number> {
  const server = net.createServer().listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as net.AddressInfo
  server.close()
  return port
}

describeIncident(
  'A, on real processes',
  (world) => {
    test('a sandbox that is suspended twice has a checkpoint of its own each time, and goes on where it was', async () => {
      const { fleet } = world()
      const sandbox = await world().suspended(LOCAL)
      const first = await countOf(world(), sandbox)
      await fleet.resume(sandbox.id, { wait: '30s' })
      await expect.poll(() => countOf(world(), sandbox)).toBeGreaterThan(first)
      const again = await fleet.pause(sandbox.id, { wait: '30s' })
      expect(again.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(again.sandbox.checkpoint?.id).not.toBe(sandbox.checkpoint?.id)
      expect(await lookAt(world(), again.sandbox)).toEqual({
        is: 'suspended',
        checkpointRef: again.sandbox.checkpoint?.providerRef,
      })
      // What it was woken from the first time is not kept for ever.
      await expect.poll(() => checkpointsOf(world(), sandbox.id)).toEqual([again.sandbox.checkpoint?.providerRef])
    })

    test.each([
      ['checkpoint_missing', (folder: string) => rm(folder, { recursive: true })],
      ['checkpoint_corrupt', (folder: string) => writeFile(path.join(folder, 'workspace', 'count'), 'something else')],
    ] as const)('%s is said of which checkpoint, and nothing is left of the sandbox', async (errorType, damage) => {
      const { fleet } = world()
      const before = await world().suspended(LOCAL)
      const { id, checkpoint } = before
      await loseProcesses(world(), before)
      await damage(path.join(folderOf(world()), 'checkpoints', checkpoint?.providerRef as string))
      const { operation, sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType, checkpointId: checkpoint?.id, retryable: false },
      })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: errorType })
      expect(await backendOf(world()).find(id, CALL)).toEqual([])
    })

    test('a damaged copy loses nobody whose processes are still there', async () => {
      const { fleet } = world()
      const before = await world().suspended(LOCAL)
      await rm(path.join(folderOf(world()), 'checkpoints', before.checkpoint?.providerRef as string), {
        recursive: true,
      })
      const { operation, sandbox } = await fleet.resume(before.id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      const count = await countOf(world(), sandbox)
      await expect.poll(() => countOf(world(), sandbox)).toBeGreaterThan(count)
      await fleet.destroy(before.id, { wait: '30s' })
    })

    test('a sandbox whose supervisor was killed is ended before it is said to be gone, and its agent with it', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().running(LOCAL)
      const home = await makeHome(path.join(world().dataFolder, 'sandboxes'), world().place.fleet)
      const instance = await findInstance(home, providerRef as string)
      if (!instance) return expect.unreachable()
      process.kill((await findSupervisor(instance))?.pid as number, 'SIGKILL')
      await expect.poll(async () => (await backendOf(world()).look(providerRef as string, CALL)).is).toBe('lost')
      expect((await findMembers(instance)).length).toBeGreaterThan(0)
      const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'sandbox_expired' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'instance_lost' })
      expect(await findMembers(instance)).toEqual([])
      expect(await backendOf(world()).find(id, CALL)).toEqual([])
    })
  },
  ON,
)

describeIncident(
  'B, on real processes',
  (world) => {
    test('when its frozen processes are gone, a resume says so; it wakes as a fresh one when the caller allows it', async () => {
      const { fleet } = world()
      const honest = await world().suspended(LOCAL)
      const replaced = await world().suspended({ ...LOCAL, agentThreadId: 'thread-1' })
      await loseProcesses(world(), honest)
      await loseProcesses(world(), replaced)

      const told = await fleet.resume(honest.id, { wait: '30s' })
      expect(told.operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'checkpoint_missing', retryable: false },
      })
      expect(told.operation.error?.message).toMatch(/processes of .* are gone/)
      expect(told.sandbox.state).toBe('gone')
      // What it had in memory is lost, and its files are not.
      const rescued = await world().running({ backend: 'local', from: honest.checkpoint?.id as string })
      expect(await countOf(world(), rescued)).toBeGreaterThan(0)
      await fleet.destroy(rescued.id, { wait: '30s' })

      const { operation, sandbox } = await fleet.resume(replaced.id, { ifLost: 'respawn', wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'respawned' })
      expect(sandbox).toMatchObject({ id: replaced.id, state: 'running', agentThreadId: null })
      expect(await backendOf(world()).find(replaced.id, CALL)).toEqual([
        { ref: sandbox.providerRef, life: operation.id },
      ])
      await fleet.destroy(replaced.id, { wait: '30s' })
    })
  },
  ON,
)

describeIncident(
  'D, on real processes',
  (world) => {
    test('a resume ends the old dev server, starts a new one, and returns a preview that answers', async () => {
      const { fleet } = world()
      const previewPort = await freePort()
      const server = `require('http').createServer((_, r) => r.end(String(process.pid))).listen(${previewPort}, '127.0.0.1')`
      const wake = { commands: [`node -e "${server}" &`], previewPort }
      const before = await world().running({ ...LOCAL, wake })
      const pid = await (await fetch(before.previewUrl as string)).text()
      await fleet.pause(before.id, { wait: '30s' })
      const { operation, sandbox } = await fleet.resume(before.id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      const freshPid = await (await fetch(sandbox.previewUrl as string)).text()
      expect(freshPid).toMatch(/^\d+$/)
      expect(freshPid).not.toBe(pid)
      await fleet.destroy(before.id, { wait: '30s' })
    })
  },
  ON,
)

describeIncident(
  'E, on real processes',
  (world) => {
    test('fifty who ask for a pause at once get one; a kill then finds nothing to free, and a destroy leaves nothing', async () => {
      const { fleet } = world()
      const { id } = await world().running(LOCAL)
      const answers = await Promise.all(Array.from({ length: 50 }, () => fleet.pause(id, { wait: '30s' })))
      expect(
        new Set(answers.map(({ operation, sandbox }) => `${operation.status} ${sandbox.checkpoint?.id}`)).size,
      ).toBe(1)
      const killed = await fleet.kill(id, { wait: '30s' })
      expect(killed.operation).toMatchObject({ status: 'succeeded', outcome: 'already_done' })
      expect((await lookAt(world(), killed.sandbox)).is).toBe('suspended')
      const destroyed = await fleet.destroy(id, { wait: '30s' })
      expect(destroyed.sandbox).toMatchObject({ state: 'gone', goneReason: 'destroyed' })
      expect(await lookAt(world(), destroyed.sandbox)).toEqual({ is: 'absent' })
      expect(await checkpointsOf(world(), id)).toEqual([])
    })
  },
  ON,
)

describeIncident(
  'F and H, on real processes',
  (world) => {
    test('a pause that was performed before its worker could tell is only verified, and nothing is done again', async () => {
      const { fleet } = world()
      const { id, providerRef, incarnation } = await world().running(LOCAL)
      const { pausing } = backendOf(world())
      if (pausing === 'none') return expect.unreachable()
      await pausing.suspend({ ref: providerRef as string, incarnation }, { key: 'somebody-else' }, CALL)
      const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done', attempt: 1 })
      expect(sandbox.checkpoint).toMatchObject({ status: 'ready', providerRef: `${providerRef}.somebody-else` })
      expect(sandbox.checkpoint?.sizeBytes).toBeGreaterThan(0)
      await fleet.destroy(id, { wait: '30s' })
    })
  },
  ON,
)

describeIncident(
  'O, P and W, on real processes',
  (world) => {
    test('sandboxes outlive every worker, and the next one finds them', async () => {
      const { fleet } = world()
      const sandbox = await world().running(LOCAL)
      await world().workers.at(-1)?.stop()
      const dying = await forkWorker(world())
      const made = await fleet.spawn({ ...LOCAL, wait: '30s' })
      dying.child.kill('SIGKILL')
      await dying.exited
      for (const each of [sandbox, made.sandbox]) {
        const before = await countOf(world(), each)
        await expect.poll(() => countOf(world(), each)).toBeGreaterThan(before)
      }
      await world().startWorker()
      for (const { id } of [sandbox, made.sandbox]) {
        expect((await fleet.pause(id, { wait: '30s' })).sandbox.state).toBe('suspended')
        expect((await fleet.resume(id, { wait: '30s' })).sandbox.state).toBe('running')
        expect((await fleet.destroy(id, { wait: '30s' })).sandbox.state).toBe('gone')
        expect(await backendOf(world()).find(id, CALL)).toEqual([])
      }
    })
  },
  ON,
)

describeIncident(
  'F and P, with a worker that is killed in the middle of a call',
  (world) => {
    /** Resolves when something with this in its name appears in a folder. */
    const appears = (folder: string, text: string) =>
      new Promise<void>((resolve) => {
        const watcher = watch(folder, (_type, name) => {
          if (!name?.includes(text)) return
          watcher.close()
          resolve()
        })
      })

    test('half a checkpoint and half a sandbox are not there; the next worker makes them whole, and once', async () => {
      const { fleet } = world()
      const many = 'i=0; while [ $i -lt 300 ]; do i=$((i+1)); echo $i > file$i; done'
      const first = await world().startWorker()
      const { id, providerRef } = await world().running({ ...LOCAL, wake: { commands: [many] } })
      const { operation: taking } = await fleet.snapshot(id, { wait: '30s' })
      await first.stop()

      const inCheckpoints = appears(path.join(folderOf(world()), 'checkpoints'), `.making-${providerRef}`)
      const pausing = await forkWorker(world(), { queues: ['pause'] })
      const { operation } = await fleet.pause(id)
      await inCheckpoints
      pausing.child.kill('SIGKILL')
      await pausing.exited
      // Not asleep: it may be frozen, but there is nothing that it could be resumed from.
      expect((await lookAt(world(), await fleet.get(id))).is).toBe('running')

      const inInstances = appears(path.join(folderOf(world()), 'instances'), '.making-')
      const spawning = await forkWorker(world(), { queues: ['spawn'] })
      const copy = await fleet.spawn({ ...LOCAL, from: taking.checkpointId as string })
      await inInstances
      spawning.child.kill('SIGKILL')
      await spawning.exited

      await world().startWorker()
      expect(await fleet.operation(operation.id, { wait: '60s' })).toMatchObject({
        operation: { status: 'succeeded', outcome: 'done', lastError: null },
        sandbox: { state: 'suspended', checkpoint: { status: 'ready' } },
      })
      const made = await fleet.operation(copy.operation.id, { wait: '60s' })
      expect(made).toMatchObject({ operation: { status: 'succeeded', lastError: null }, sandbox: { state: 'running' } })
      const workspace = path.join(folderOf(world()), 'instances', made.sandbox.providerRef as string, 'workspace')
      expect((await readdir(workspace)).filter((name) => name.startsWith('file')).length).toBe(300)
      expect((await fleet.resume(id, { wait: '30s' })).sandbox.state).toBe('running')
      await Promise.all([id, copy.sandbox.id].map((each) => fleet.destroy(each, { wait: '30s' })))
      // What the resume tidies up may end a moment after the destroy.
      for (const folder of ['instances', 'checkpoints'])
        await expect.poll(() => readdir(path.join(folderOf(world()), folder))).toEqual([])
    })
  },
  { worker: false, ...ON },
)

describeIncident(
  'Q, on real processes',
  (world) => {
    test('an end that was meant for the incarnation before the resume does nothing', async () => {
      const { fleet } = world()
      const { id, providerRef, incarnation } = await world().running(LOCAL)
      await fleet.pause(id, { wait: '30s' })
      const { sandbox } = await fleet.resume(id, { wait: '30s' })
      expect(sandbox.incarnation).not.toBe(incarnation)
      const late = backendOf(world()).end({ ref: providerRef as string, incarnation }, CALL)
      await expect(late).rejects.toMatchObject({ type: 'overtaken' })
      expect(await lookAt(world(), sandbox)).toEqual({ is: 'running', incarnation: sandbox.incarnation })
      await fleet.destroy(id, { wait: '30s' })
    })
  },
  ON,
)

describeIncident(
  'snapshots, on real processes',
  (world) => {
    test('a sandbox can be spawned from a snapshot of another, and from no other fleet’s or lost one', async () => {
      const { fleet } = world()
      const { id } = await world().running({ backend: 'local', wake: { commands: ['echo hello > greeting'] } })
      const { operation } = await fleet.snapshot(id, { name: 'with-greeting', wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      const from = operation.checkpointId as string
      const copy = await world().running({ backend: 'local', from })
      const workspace = path.join(folderOf(world()), 'instances', copy.providerRef as string, 'workspace')
      expect(await readFile(path.join(workspace, 'greeting'), 'utf8')).toBe('hello\n')

      await fleet.destroy(id, { wait: '30s' })
      const lost = await fleet.spawn({ backend: 'local', from, wait: '30s' })
      expect(lost.operation).toMatchObject({ status: 'failed', error: { errorType: 'checkpoint_missing' } })
      expect(lost.operation.error?.message).toContain('it is deleted')
      expect(lost.sandbox).toMatchObject({ state: 'gone', goneReason: 'spawn_failed' })
      await fleet.destroy(copy.id, { wait: '30s' })
    })
  },
  ON,
)
