import { afterAll, expect, test } from 'vitest'
import { openAgentSandboxBackend } from '../../src/backends/agent-sandbox/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import { describeIncident } from '../support/describe-world.ts'
import { FakeKubernetes } from '../support/kubernetes/server.ts'
import { QUICK } from '../support/world.ts'
import { describeOnProvider } from './on-a-provider.ts'

const cluster = await FakeKubernetes.start({ version: 'v1.28.4', serve: { sandboxes: ['v1beta1'] } })
const wire = await startWire(cluster.url)
afterAll(async () => {
  await wire.close()
  await cluster.stop()
})

const CALL = { signal: new AbortController().signal }
const WAIT = { wait: '50s' } as const
const { namespace } = cluster
const { server, token } = cluster.connect()
const open = (fleet: string, address: string) =>
  openAgentSandboxBackend({ fleet, namespace, connection: { server: address, token } })
const nameOf = (ref: unknown) => String(ref).split('/').at(-1) as string
const path = `/apis/agents.x-k8s.io/v1beta1/namespaces/${namespace}/sandboxes`
const spawned = { backend: 'agent-sandbox', template: 'sandman-test' }

async function control(method: string, asked: string, body?: object): Promise<void> {
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/merge-patch+json' }
  await fetch(`${server}${asked}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
}

describeOnProvider({
  name: 'agent-sandbox',
  wire,
  open: (fleet) => open(fleet, wire.url),
  truth: (fleet) => open(fleet, server),
  spec: { template: 'sandman-test' },
  async putToSleep(ref) {
    await control('PATCH', `${path}/${nameOf(ref)}`, { spec: { operatingMode: 'Suspended' } })
    await cluster.when('pods', nameOf(ref), (pod) => pod === undefined)
  },
  async remove(ref) {
    await control('DELETE', `${path}/${nameOf(ref)}`)
    await cluster.when('pods', nameOf(ref), (pod) => pod === undefined)
  },
  creates: ({ method, path: asked }) => method === 'POST' && asked === path,
  ends: ({ method, path: asked }) => method === 'DELETE' && asked.startsWith(path),
  agentEnds: {
    limits: { memoryBytesMax: 32 << 20 },
    script: 'a=xxxxxxxx; while :; do a=$a$a; done',
    as: { reason: 'oom_killed', exitCode: 137 },
  },
})

const options = { stores: ['postgres' as const], open: (fleet: string) => open(fleet, wire.url), patience: QUICK }

describeIncident(
  'A, on agent-sandbox, whose volume is gone',
  (world) => {
    test('a resume says which checkpoint is missing, and the sandbox ends for that reason', async () => {
      const { fleet } = world()
      const { id, providerRef, checkpoint } = await world().suspended(spawned)
      const claim = `workspace-${nameOf(providerRef)}`
      await control('DELETE', `/api/v1/namespaces/${namespace}/persistentvolumeclaims/${claim}`)
      const { operation, sandbox } = await fleet.resume(id, WAIT)
      expect(operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'checkpoint_missing', checkpointId: checkpoint?.id, retryable: false },
      })
      expect(operation.error?.message).toContain(claim)
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
      expect(cluster.get('sandboxes.agents.x-k8s.io', nameOf(providerRef))).toBeUndefined()
    })
  },
  options,
)

describeIncident(
  'K, on agent-sandbox, whose version is not served any more',
  (world) => {
    test('nothing is gone: operations fail as unreachable and say what to do, and go on when it is served again', async () => {
      const { fleet } = world()
      const { id } = await world().suspended(spawned)
      const unserved = { kind: 'answer', status: 404, type: 'text/plain', body: '404 page not found\n' } as const
      wire.fail(unserved, (request) => request.path.startsWith('/apis/agents.x-k8s.io'))
      const failed = await fleet.resume(id, WAIT)
      expect(failed.operation).toMatchObject({
        status: 'failed',
        error: { errorType: 'sandbox_unreachable', retryable: true },
      })
      expect(failed.sandbox.state).toBe('suspended')
      wire.heal()
      expect((await fleet.resume(id, WAIT)).operation.status).toBe('succeeded')
      await fleet.destroy(id, WAIT)
    })
  },
  options,
)

describeIncident(
  'B, on agent-sandbox, whose pods end by themselves',
  (world) => {
    test('a sandbox whose pod was evicted sleeps, with its files, and comes back with them', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().running({ ...spawned, agent: { command: ['sleep', '1000'] } })
      await fleet.execute(id, { command: ['sh', '-c', 'echo kept > kept'], ...WAIT })
      await cluster.evict(nameOf(providerRef))
      const { operation, sandbox } = await fleet.pause(id, WAIT)
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(sandbox).toMatchObject({ state: 'suspended', checkpoint: { status: 'ready' } })
      const { sandbox: awake } = await fleet.resume(id, WAIT)
      const truth = await open(world().place.fleet, server)
      const target = { ref: awake.providerRef as string, incarnation: awake.incarnation as string }
      expect((await truth.run(target, 'cat kept', CALL)).output).toBe('kept\n')
      await truth.close()
      await fleet.destroy(id, WAIT)
    })
  },
  options,
)
