import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { afterAll, describe, expect, test } from 'vitest'
import { openPodBackend } from '../../src/backends/kubernetes-pod/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import type { Sandbox } from '../../src/index.ts'
import { BRIEF, endOf, textOf } from '../executions/setup.ts'
import { describeIncident } from '../support/describe-world.ts'
import { FakeKubernetes } from '../support/kubernetes/server.ts'
import { IMPATIENT, type World } from '../support/world.ts'
import { describeOnProvider } from './on-a-provider.ts'

// Before there were native sidecars: what serves the agent tools outlives it, and keeps its pod Running.
const kubernetes = await FakeKubernetes.start({ version: 'v1.28.0' })
const wire = await startWire(kubernetes.url)
afterAll(async () => {
  await wire.close()
  await kubernetes.stop()
})

const WAIT = { wait: '50s' } as const
const { namespace, token } = kubernetes
const openOn = (server: string) => (fleet: string) =>
  openPodBackend({ fleet, namespace, connection: { server, token } })
const open = openOn(wire.url)
const truth = openOn(kubernetes.url)
const nameOf = ({ providerRef }: Sandbox) => (providerRef as string).slice((providerRef as string).lastIndexOf('/') + 1)

const SPAWNED = { backend: 'kubernetes-pod', template: 'sandman-test' }
const running = (world: World, script: string) =>
  world.running({
    ...SPAWNED,
    agent: { command: ['sh', '-c', script], sidecar: { command: ['sleep', '1000'] } },
  })

/** Its agent waits for this file, which is put there past everybody. */
async function letGo(sandbox: Sandbox): Promise<void> {
  const folder = kubernetes.cluster.volumes.folderOfPod(kubernetes.get('pods', nameOf(sandbox))?.metadata.uid ?? '')
  await writeFile(path.join(folder, 'volumes', 'workspace', 'go'), '')
}

/** An execution that follows the agent of a sandbox, and is seen to run. */
async function follow({ fleet }: World, { id }: Sandbox) {
  const { execution } = await fleet.execute(id)
  await expect.poll(async () => (await fleet.execution(execution.id)).execution.status).toBe('running')
  return execution
}

describeOnProvider({
  name: 'kubernetes-pod',
  wire,
  open,
  truth,
  spec: { template: 'sandman-test' },
  pausing: 'none',
  remove: async () => {},
  creates: ({ method, path }) => method === 'POST' && path.endsWith('/pods'),
  ends: ({ method }) => method === 'DELETE',
  agentEnds: {
    limits: { memoryBytesMax: 32 << 20 },
    script: 'a=xxxxxxxx; while :; do a=$a$a; done',
    as: { reason: 'oom_killed', exitCode: 137 },
  },
})

describe('on kubernetes-pod', () => {
  describeIncident(
    'B',
    (world) => {
      test('a pod is not asked to pause: the request is refused, and it keeps running', async () => {
        const { fleet } = world()
        const sandbox = await running(world(), 'sleep 1000')
        kubernetes.requests.clear()
        const refused = await fleet.pause(sandbox.id, WAIT)
        expect(refused.operation).toMatchObject({ status: 'refused', error: { errorType: 'pause_unsupported' } })
        expect(refused.sandbox.state).toBe('running')
        expect(kubernetes.requests.filter(({ method }) => method !== 'GET')).toEqual([])
        expect(kubernetes.get('pods', nameOf(sandbox))?.status?.phase).toBe('Running')
        await fleet.destroy(sandbox.id, WAIT)
      })

      test('it is ended instead for who says so, and nobody ever says that it sleeps', async () => {
        const { fleet } = world()
        const before = await running(world(), 'sleep 1000')
        const { operation, sandbox } = await fleet.pause(before.id, { ...WAIT, ifUnsupported: 'kill' })
        expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
        expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'pause_unsupported', checkpoint: null })
        expect(kubernetes.get('pods', nameOf(before))).toBeUndefined()
        const states = (await fleet.events(before.id)).items.map(({ to }) => to)
        expect(states).toEqual(['provisioning', 'running', 'killing', 'gone'])
      })
    },
    { stores: ['postgres'], open },
  )

  describeIncident(
    'C',
    (world) => {
      test('a turn whose agent was killed for its memory fails with 137, once, although its pod is Running', async () => {
        const { fleet } = world()
        const sandbox = await running(world(), 'echo thinking; sleep 1000')
        const execution = await follow(world(), sandbox)
        await expect
          .poll(async () => (await fleet.execution(execution.id)).execution.outputBytes)
          .toBe('thinking\n'.length)
        const diedAt = Date.now()
        await kubernetes.terminateContainer(nameOf(sandbox), 'agent', { exitCode: 137, reason: 'OOMKilled' })
        expect(await endOf(world(), execution)).toMatchObject({
          status: 'failed',
          reason: 'oom_killed',
          exitCode: 137,
          breaks: 0,
        })
        expect(Date.now() - diedAt).toBeLessThan(10_000)
        // What was asked before, and is asked no more.
        expect(kubernetes.get('pods', nameOf(sandbox))?.status?.phase).toBe('Running')
        expect(kubernetes.container(nameOf(sandbox), 'tool-server').end).toBeUndefined()
        expect(await textOf(world(), execution.id)).toBe('thinking\n')
        const { items } = await fleet.events(sandbox.id)
        expect(items.filter(({ type }) => type === 'execution_ended')).toHaveLength(1)
        await fleet.destroy(sandbox.id, WAIT)
      })

      test('a turn whose pod was evicted has lost its sandbox, which is then gone', async () => {
        const { fleet } = world()
        const sandbox = await running(world(), 'echo thinking; sleep 1000')
        const execution = await follow(world(), sandbox)
        await kubernetes.evict(nameOf(sandbox))
        expect(await endOf(world(), execution)).toMatchObject({
          status: 'failed',
          reason: 'instance_lost',
          message: expect.stringContaining('Evicted'),
        })
        await expect.poll(async () => (await fleet.get(sandbox.id)).state, { timeout: 20_000 }).toBe('gone')
        expect(kubernetes.get('pods', nameOf(sandbox))).toBeUndefined()
      })
    },
    { stores: ['postgres'], open, patience: BRIEF },
  )

  describeIncident(
    'K',
    (world) => {
      test('paths that are answered with `404 page not found` end nothing: neither a turn, nor a sandbox', async () => {
        const { fleet } = world()
        const [working, dying] = [
          await running(world(), 'echo one; until [ -e go ]; do sleep 0.05; done; echo two'),
          await running(world(), 'sleep 1000'),
        ]
        const execution = await follow(world(), working)
        await expect.poll(async () => (await fleet.execution(execution.id)).execution.outputBytes).toBe(4)
        const before = wire.met
        wire.fail({ kind: 'answer', status: 404, type: 'text/plain', body: '404 page not found\n' })
        kubernetes.cutLogs('reset')
        const { operation } = await fleet.kill(dying.id)
        await expect.poll(() => wire.met - before, { timeout: 20_000 }).toBeGreaterThan(15)
        expect((await fleet.execution(execution.id)).execution.status).toBe('running')
        expect((await fleet.get(working.id)).state).toBe('running')
        expect((await fleet.get(dying.id)).state).toBe('killing')
        wire.heal()
        expect((await fleet.operation(operation.id, WAIT)).sandbox.state).toBe('gone')
        expect(kubernetes.get('pods', nameOf(dying))).toBeUndefined()
        await letGo(working)
        expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
        expect(await textOf(world(), execution.id)).toBe('one\ntwo\n')
        await fleet.destroy(working.id, WAIT)
      })
    },
    { stores: ['postgres'], open, patience: { ...BRIEF, breaksMax: 1_000 } },
  )

  describeIncident(
    'Q',
    (world) => {
      test('a delete that was on its way for long does not hit what came after it', async () => {
        const { fleet } = world()
        const sandbox = await running(world(), 'sleep 1000')
        const late = kubernetes.holdOnceAt('delete pods')
        const killing = fleet.kill(sandbox.id, WAIT)
        await late.entered(1)
        // It is given up after a second, and the next one is done.
        expect((await killing).sandbox.state).toBe('gone')
        const { sandbox: again } = await fleet.resume(sandbox.id, { ...WAIT, ifLost: 'respawn' })
        expect(again.state).toBe('running')
        late.open()
        const answered = () =>
          kubernetes.requests.filter(
            ({ verb, name, status }) => verb === 'delete' && name === nameOf(sandbox) && status !== undefined,
          )
        await expect.poll(() => answered().length).toBe(2)
        expect(kubernetes.get('pods', nameOf(again))?.metadata.uid).toBe(again.incarnation)
        const sent = answered().map(({ body }) => (body as { preconditions: { uid: string } }).preconditions.uid)
        expect(new Set(sent)).toEqual(new Set([sandbox.incarnation]))
        await fleet.destroy(again.id, WAIT)
      })
    },
    { stores: ['postgres'], open: truth, patience: IMPATIENT },
  )

  describeIncident(
    'R, S and U',
    (world) => {
      test.each(['end', 'mid-line', 'reset'] as const)(
        'a log that is cut again and again (%s) is byte for byte what was printed',
        async (how) => {
          const { fleet } = world()
          const lines = Array.from({ length: 60 }, (_, at) => `${at}: ü ${'x'.repeat(at % 7)}`)
          const script = `until [ -e go ]; do sleep 0.05; done; printf '%s\\n' ${lines.map((line) => `'${line}'`).join(' ')}; printf last`
          const sandbox = await running(world(), script)
          // Each time a little further, with the moments that stand before the lines.
          for (let at = 1; at <= 40; at++) kubernetes.cutLogs(how, { afterBytes: at * 63 })
          const execution = await follow(world(), sandbox)
          await letGo(sandbox)
          expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
          expect(await textOf(world(), execution.id)).toBe(`${lines.join('\n')}\nlast`)
          kubernetes.heal()
          await fleet.destroy(sandbox.id, WAIT)
        },
      )

      test('a status that lags behind the output by seconds is waited for, and the end is the true one', async () => {
        const { fleet } = world()
        const sandbox = await running(world(), 'echo one; sleep 1; exit 3')
        kubernetes.lagStatus(3_000)
        const execution = await follow(world(), sandbox)
        expect(await endOf(world(), execution)).toMatchObject({ status: 'failed', reason: 'error', exitCode: 3 })
        kubernetes.lagStatus(0)
        expect(await textOf(world(), execution.id)).toBe('one\n')
        await fleet.destroy(sandbox.id, WAIT)
      })

      test('logs that are reset, garbled, refused or hang end neither the process nor each other', async () => {
        const { fleet } = world()
        const uncaught: unknown[] = []
        const note = (error: unknown) => uncaught.push(error)
        process.on('uncaughtExceptionMonitor', note)
        const script = 'echo begun; until [ -e go ]; do sleep 0.05; done; echo done'
        const sandboxes = await Promise.all(Array.from({ length: 4 }, () => running(world(), script)))
        const executions = await Promise.all(sandboxes.map((sandbox) => follow(world(), sandbox)))
        for (const { id } of executions)
          await expect.poll(async () => (await fleet.execution(id)).execution.outputBytes).toBe('begun\n'.length)
        const logs = { resource: 'pods/log' }
        kubernetes.failNext(logs, 'reset', 3)
        kubernetes.failNext(logs, { status: 200, body: 'garbage', type: 'text/plain' }, 2)
        kubernetes.failNext(logs, { status: 500, body: 'no route to host' })
        kubernetes.cutLogs('stall', { afterBytes: 0, times: 2 })
        kubernetes.cutLogs('reset')
        await Promise.all(sandboxes.map(letGo))
        for (const execution of executions) {
          expect(await endOf(world(), execution)).toMatchObject({ status: 'succeeded' })
          expect(await textOf(world(), execution.id)).toBe('begun\ndone\n')
        }
        kubernetes.heal()
        process.off('uncaughtExceptionMonitor', note)
        expect(uncaught).toEqual([])
        for (const { id } of sandboxes) await fleet.destroy(id, WAIT)
      })
    },
    { stores: ['postgres'], open: truth, patience: { ...BRIEF, breaksMax: 60, drainMs: 20_000 } },
  )
})
