import { afterAll, expect, test } from 'vitest'
import { openE2bBackend } from '../../src/backends/e2b/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import { describeIncident, describeWorld } from '../support/describe-world.ts'
import { FakeE2b } from '../support/e2b/server.ts'
import { QUICK } from '../support/world.ts'
import { describeOnProvider } from './on-a-provider.ts'

const e2b = await FakeE2b.start()
const CALL = { signal: new AbortController().signal }
const wire = await startWire(e2b.url)
afterAll(async () => {
  await wire.close()
  await e2b.stop()
})

const control = async (method: string, path: string, body?: object) => {
  const headers = { 'X-API-KEY': e2b.apiKey, 'content-type': 'application/json' }
  await fetch(`${e2b.url}${path}`, { method, headers, ...(body && { body: JSON.stringify(body) }) })
}

describeOnProvider({
  name: 'e2b',
  wire,
  open: (fleet) => openE2bBackend({ fleet, ...e2b.connection, apiUrl: wire.url, sandboxUrl: wire.url }),
  truth: (fleet) => openE2bBackend({ fleet, ...e2b.connection }),
  spec: {},
  // As at the end of its time, which is told apart by nobody.
  putToSleep: (ref) => control('POST', `/sandboxes/${ref}/pause`, {}),
  remove: (ref) => control('DELETE', `/sandboxes/${ref}`),
  creates: ({ method, path }) => method === 'POST' && path === '/v2/sandboxes',
  ends: ({ method, path }) => method === 'DELETE' && path.startsWith('/sandboxes/'),
  // Its machine does not tell why a process was killed.
  agentEnds: { script: 'kill -9 $$', as: { exitCode: 137 } },
})

describeIncident(
  'A, on e2b, whose older pause is shown again',
  (world) => {
    test.each([
      ['a pause', (id: string) => world().fleet.pause(id, { wait: '50s' })],
      ['an execution', (id: string) => world().fleet.execute(id, { command: ['true'], wait: '50s' })],
    ])('%s does not take it for what ran: it is gone, and nobody is told that it sleeps', async (_what, ask) => {
      const { fleet } = world()
      const { id, providerRef } = await world().suspended({ backend: 'e2b' })
      expect((await fleet.resume(id, { wait: '50s' })).sandbox.state).toBe('running')
      await e2b.lose(providerRef as string)
      const truth = await openE2bBackend({ fleet: world().place.fleet, ...e2b.connection })
      expect((await truth.look(providerRef as string, CALL)).is).toBe('suspended')
      await ask(id)
      const after = await fleet.get(id)
      expect(after).toMatchObject({ state: 'gone', goneReason: 'instance_lost' })
      expect((await truth.look(providerRef as string, CALL)).is).toBe('absent')
      const { story } = await fleet.why(id)
      expect(JSON.stringify(story)).toContain('shows what was there before it')
    })

    test('a pause that is tried again waits for the one that is under way, and does not take it for done', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().running({ backend: 'e2b' })
      const under = e2b.holdWhile('pausing')
      e2b.next('pause', { kind: 'lost' })
      const pausing = fleet.pause(id, { wait: '50s' })
      await under.entered(1)
      // The first attempt has given up waiting for an answer.
      await expect
        .poll(() => e2b.requests.filter(({ route, name }) => route === 'pause' && name === providerRef).length)
        .toBe(2)
      expect((await fleet.get(id)).state).toBe('pausing')
      under.open()
      const { operation, sandbox } = await pausing
      expect(operation.status).toBe('failed')
      expect(sandbox.state).toBe('gone')
      expect(e2b.listed().map((listed) => listed.sandboxID)).not.toContain(providerRef)
    })

    test('a pause that loses the last run does not wake the one before in its place', async () => {
      const { fleet } = world()
      const { id, providerRef } = await world().suspended({ backend: 'e2b' })
      await fleet.resume(id, { wait: '50s' })
      const before = e2b.count('connect')
      e2b.next('pause', { kind: 'lost' })
      const { operation, sandbox } = await fleet.pause(id, { wait: '50s' })
      expect(operation).toMatchObject({ status: 'failed', error: { errorType: 'checkpoint_missing' } })
      expect(sandbox).toMatchObject({ state: 'gone', goneReason: 'checkpoint_missing' })
      expect(e2b.count('connect')).toBe(before)
      expect(e2b.listed().map((listed) => listed.sandboxID)).not.toContain(providerRef)
    })
  },
  {
    stores: ['postgres'],
    open: (fleet) => openE2bBackend({ fleet, ...e2b.connection }),
    patience: { ...QUICK, callMs: { ...QUICK.callMs, suspend: 2_000 } },
  },
)

describeWorld(
  'at e2b',
  (world) => {
    test('a sandbox is destroyed although a copy of it lives, and what the copy rests on is left to the sweeper', async () => {
      const { fleet } = world()
      const { id } = await world().running({ backend: 'e2b' })
      const { operation } = await fleet.snapshot(id, { wait: '50s' })
      const { sandbox: copy } = await fleet.spawn({
        backend: 'e2b',
        from: operation.checkpointId as string,
        wait: '50s',
      })
      expect(copy.state).toBe('running')
      const destroyed = await fleet.destroy(id, { wait: '50s' })
      expect(destroyed.operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      const truth = await openE2bBackend({ fleet: world().place.fleet, ...e2b.connection })
      if (truth.lists.checkpoints === 'none') return expect.unreachable()
      expect((await truth.lists.checkpoints(undefined, CALL)).items).toMatchObject([{ sandboxId: id }])
      expect((await fleet.destroy(copy.id, { wait: '50s' })).operation.status).toBe('succeeded')
    })
  },
  { stores: ['postgres'], open: (fleet) => openE2bBackend({ fleet, ...e2b.connection }) },
)
