import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import { makeHome } from '../../src/backends/local/home.ts'
import { findInstance } from '../../src/backends/local/instance.ts'
import { findMembers } from '../../src/backends/local/processes.ts'
import type { Sandbox } from '../../src/index.ts'
import { forkWorker } from '../support/crash.ts'
import { loseProcesses, type World } from '../support/world.ts'
import { bytesOf, describeExecutions, endOf, textOf } from './setup.ts'

/** Executions with real processes, on the local backend. */

const LONG = { wait: '30s' }
const CALL = { signal: new AbortController().signal }
const SIDECAR = { command: ['sh', '-c', 'echo up > sidecar; exec sleep 600'] }
const sh = (script: string) => ['sh', '-c', script]
const until = (file: string) => `until [ -e ${file} ]; do sleep 0.01; done`
const running = (world: World, agent?: Parameters<World['fleet']['spawn']>[0]['agent'], more = {}) =>
  world.running({ backend: 'local', ...(agent && { agent }), ...more })

const workspaceOf = ({ dataFolder, place }: World, { providerRef }: Sandbox) =>
  path.join(dataFolder, 'sandboxes', place.fleet, 'instances', providerRef as string, 'workspace')
const backendOf = ({ dataFolder, place }: World) =>
  openLocalBackend({ folder: path.join(dataFolder, 'sandboxes'), fleet: place.fleet })
async function partsOf({ dataFolder, place }: World, { providerRef }: Sandbox): Promise<string[]> {
  const home = await makeHome(path.join(dataFolder, 'sandboxes'), place.fleet)
  const instance = await findInstance(home, providerRef as string)
  return instance ? (await findMembers(instance)).map(({ part }) => part) : []
}
async function pidIn(world: World, sandbox: Sandbox, file: string): Promise<number> {
  await expect
    .poll(() => readFile(path.join(workspaceOf(world, sandbox), file), 'utf8').catch(() => ''))
    .toMatch(/^\d+\n$/)
  return Number(await readFile(path.join(workspaceOf(world, sandbox), file), 'utf8'))
}

describeExecutions(
  'incident C, on real processes: the agent is dead, its sidecar is not',
  (world) => {
    test('its execution is failed with 137 within 5 s of the kill, once; the rule by the sandbox goes on for ever', async () => {
      const { fleet } = world()
      const agent = { command: sh('echo thinking; echo $$ > next; mv next pid; exec sleep 600'), sidecar: SIDECAR }
      const sandbox = await running(world(), agent)
      const { execution } = await fleet.execute(sandbox.id)
      const pid = await pidIn(world(), sandbox, 'pid')
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(9)
      const killedAt = Date.now()
      process.kill(pid, 'SIGKILL')
      const ended = await endOf(world(), execution)
      expect(ended).toMatchObject({ status: 'failed', reason: 'signal', exitCode: 137 })
      expect((ended.endedAt as Date).getTime() - killedAt).toBeLessThan(5_000)
      expect(await textOf(world(), execution.id)).toBe('thinking\n')

      // The sidecar lives, so the sandbox runs: who asks for that attaches again, and again.
      expect(await partsOf(world(), sandbox)).toContain('sidecar')
      const backend = backendOf(world())
      let goesOn = 0
      for (; goesOn < 20; goesOn++) {
        const seen = await backend.look(sandbox.providerRef as string, CALL)
        if (seen.is !== 'running') break
        const own = { ref: sandbox.providerRef as string, incarnation: seen.incarnation, key: undefined }
        for await (const { bytes } of backend.attach(own, '9', CALL)) expect(bytes).toHaveLength(0)
      }
      expect(goesOn).toBe(20)
      const { items } = await fleet.events(sandbox.id)
      expect(items.filter(({ type }) => type === 'execution_ended')).toHaveLength(1)
    })

    test('killed for its memory, where the system counts that: oom_killed, and the other one of the sandbox is not', async () => {
      const { fleet } = world()
      const sandbox = await running(
        world(),
        { command: sh('exec sleep 600'), sidecar: SIDECAR },
        {
          limits: { memoryBytesMax: 64 * 1024 * 1024 },
        },
      )
      // It starts nothing meanwhile: where there is no memory left, that may fail.
      const waiting = sh('mkfifo done; exec 3<>done; echo; read x <&3; echo fine')
      const other = await fleet.execute(sandbox.id, { command: waiting })
      await expect.poll(async () => (await fleet.execution(other.execution.id)).execution.outputBytes).toBe(1)
      const { execution } = await fleet.execute(sandbox.id, {
        command: [process.execPath, '-e', 'const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))'],
        ...LONG,
      })
      const home = await makeHome(path.join(world().dataFolder, 'sandboxes'), world().place.fleet)
      const instance = await findInstance(home, sandbox.providerRef as string)
      if (instance?.labels.cgroups.memory) {
        expect(execution).toMatchObject({ status: 'failed', reason: 'oom_killed', exitCode: 137 })
      } else await fleet.cancel(execution.id, LONG)
      await fleet.execute(sandbox.id, { command: sh('echo > done'), ...LONG })
      expect(await endOf(world(), other.execution)).toMatchObject({ status: 'succeeded' })
    })
  },
  { stores: ['postgres'] },
)

describeExecutions(
  'executions of real processes',
  (world) => {
    test('their output and their exit code are what they are', async () => {
      const { fleet } = world()
      const { id } = await running(world())
      const empty = await fleet.execute(id, { command: ['printf', '<%s>', '', 'x'], ...LONG })
      expect(await textOf(world(), empty.execution.id)).toBe('<><x>')
      const { execution } = await fleet.execute(id, { command: sh('echo out; echo err >&2; exit 7'), ...LONG })
      expect(execution).toMatchObject({ status: 'failed', reason: 'error', exitCode: 7 })
      expect(await textOf(world(), execution.id)).toBe('out\nerr\n')
      const missing = await fleet.execute(id, { command: ['no-such-program'], ...LONG })
      expect(missing.execution).toMatchObject({ status: 'failed', exitCode: 127 })
      expect(await textOf(world(), missing.execution.id)).toContain('no-such-program')
    })

    test('one that is cancelled has ended with all that it had started', async () => {
      const { fleet } = world()
      const sandbox = await running(world(), { command: sh('exec sleep 600'), sidecar: SIDECAR })
      const command = sh('trap "" TERM; sleep 600 & echo $$ > next; mv next pid; wait; sleep 600')
      const { execution } = await fleet.execute(sandbox.id, { command })
      await pidIn(world(), sandbox, 'pid')
      const cancelled = await fleet.cancel(execution.id, LONG)
      expect(cancelled.execution).toMatchObject({ status: 'cancelled', reason: 'cancelled' })
      expect((await partsOf(world(), sandbox)).toSorted()).toEqual(['agent', 'sidecar'])
    })

    test('a sleeping sandbox is woken for it, with what it had in memory; a lost one is replaced', async () => {
      const { fleet } = world()
      const counting = sh('i=0; while :; do i=$((i+1)); echo $i > next && mv next count; sleep 0.01; done')
      const before = await world().suspended({
        backend: 'local',
        agent: { command: counting },
        wake: { commands: [until('count')] },
      })
      const woken = await fleet.execute(before.id, { command: ['cat', 'count'], ...LONG })
      expect(woken.execution.status).toBe('succeeded')
      expect(Number(await textOf(world(), woken.execution.id))).toBeGreaterThan(0)
      expect(woken.sandbox.providerRef).toBe(before.providerRef)
      await loseProcesses(world(), before)
      const replaced = await fleet.execute(before.id, { command: ['echo', 'fresh'], ifLost: 'respawn', ...LONG })
      expect(replaced.execution.status).toBe('succeeded')
      expect(replaced.sandbox.providerRef).not.toBe(before.providerRef)
      expect(await textOf(world(), replaced.execution.id)).toBe('fresh\n')
    })

    test('a pause that interrupts stops a command; the agent of the sandbox sleeps, and can be followed again', async () => {
      const { fleet } = world()
      const sandbox = await running(world(), {
        command: sh('echo one; until [ -e go ]; do sleep 0.01; done; echo two'),
      })
      const own = await fleet.execute(sandbox.id)
      const { execution } = await fleet.execute(sandbox.id, {
        command: sh('echo $$ > next; mv next pid; exec sleep 600'),
      })
      await pidIn(world(), sandbox, 'pid')
      const { operation } = await fleet.pause(sandbox.id, { ifBusy: 'interrupt', ...LONG })
      expect(operation).toMatchObject({ status: 'succeeded' })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled' })
      expect(await endOf(world(), own.execution)).toMatchObject({ status: 'cancelled' })
      expect(await partsOf(world(), sandbox)).not.toContain(execution.id)
      await fleet.execute(sandbox.id, { command: ['touch', 'go'], ...LONG })
      const again = await fleet.execute(sandbox.id, LONG)
      expect(again.execution).toMatchObject({ status: 'succeeded', exitCode: 0 })
      expect(await textOf(world(), again.execution.id)).toBe('one\ntwo\n')
    })

    test('one that was stopped because it was silent says so, whatever it does then', async () => {
      const { fleet } = world()
      const sandbox = await running(world())
      const ends = ['echo bye; exit 0', 'echo no'].map(
        (then) => `trap "${then}" TERM; echo; while :; do sleep 0.1; done`,
      )
      const all = await Promise.all(ends.map((end) => fleet.execute(sandbox.id, { command: sh(end), silence: '1s' })))
      const [obeying, stubborn] = await Promise.all(all.map(({ execution }) => endOf(world(), execution)))
      expect(obeying).toMatchObject({ status: 'failed', reason: 'deadline_exceeded', exitCode: 0 })
      expect(await textOf(world(), obeying?.id as string)).toContain('bye\n')
      expect(stubborn).toMatchObject({ status: 'failed', reason: 'deadline_exceeded', exitCode: 137 })
    })

    test('a sandbox that is lost takes them with it, and what they said is not lost', async () => {
      const { fleet } = world()
      const sandbox = await running(world(), { command: sh('echo own; exec sleep 600') })
      const all = [
        await fleet.execute(sandbox.id),
        await fleet.execute(sandbox.id, { command: sh('echo x; sleep 600') }),
      ]
      const said = ['own\n', 'x\n']
      for (const [nth, { execution }] of all.entries())
        await expect
          .poll(async () => (await fleet.execution(execution.id)).execution.outputBytes)
          .toBe(said[nth]?.length)
      await loseProcesses(world(), sandbox)
      for (const [nth, { execution }] of all.entries()) {
        expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'instance_lost' })
        expect(await textOf(world(), execution.id)).toBe(said[nth])
      }
      await expect.poll(async () => (await fleet.get(sandbox.id)).state).toBe('gone')
    })

    test('a sandbox that is killed takes them with it', async () => {
      const { fleet } = world()
      const sandbox = await running(world())
      const { execution } = await fleet.execute(sandbox.id, { command: sh('echo x; exec sleep 600') })
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(2)
      await fleet.kill(sandbox.id, LONG)
      expect(await endOf(world(), execution)).toMatchObject({ status: 'cancelled', outputBytes: 2 })
      expect(await partsOf(world(), sandbox)).toEqual([])
    })
  },
  { stores: ['postgres'] },
)

describeExecutions(
  'output before, during and after the death of a worker',
  (world) => {
    test('is all there, once, and the end with it', async () => {
      const { fleet } = world()
      const first = await forkWorker(world())
      const sandbox = await running(world())
      const script = `i=0; while [ ! -e stop ]; do i=$((i+1)); echo "line $i"; sleep 0.001; done; echo "the end of $i"; exit 3`
      const { execution } = await fleet.execute(sandbox.id, { command: sh(script) })
      const bytes = async () => (await fleet.execution(execution.id)).execution.outputBytes
      await expect.poll(bytes).toBeGreaterThan(500)
      first.child.kill('SIGKILL')
      await first.exited
      const atDeath = await bytes()
      // Nobody follows it now, and it prints on.
      await forkWorker(world())
      await expect.poll(bytes, { timeout: 30_000 }).toBeGreaterThan(atDeath + 500)
      await fleet.execute(sandbox.id, { command: ['touch', 'stop'], ...LONG })
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', exitCode: 3 })
      const lines = (await bytesOf(world(), execution.id)).toString().split('\n')
      const last = lines.length - 2
      expect(lines.slice(0, last)).toEqual(Array.from({ length: last }, (_, nth) => `line ${nth + 1}`))
      expect(lines.slice(last)).toEqual([`the end of ${last}`, ''])
    })

    test('an agent that ends while nobody is there to see it is found with its true end', async () => {
      const { fleet } = world()
      const first = await forkWorker(world())
      const sandbox = await running(world())
      const { execution } = await fleet.execute(sandbox.id, {
        command: sh(`echo begun; ${until('go')}; echo over; exit 5`),
      })
      await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(6)
      first.child.kill('SIGKILL')
      await first.exited
      const { incarnation, providerRef } = await fleet.get(sandbox.id)
      const target = { ref: providerRef as string, incarnation: incarnation as string }
      await backendOf(world()).run(target, 'touch go', CALL)
      const status = () => backendOf(world()).agentStatus({ ...target, key: execution.id }, CALL)
      await expect.poll(async () => (await status()).is).toBe('terminated')
      await forkWorker(world())
      expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'error', exitCode: 5 })
      expect(await textOf(world(), execution.id)).toBe('begun\nover\n')
    })
  },
  { worker: false, stores: ['postgres'] },
)
