import { afterAll } from 'vitest'
import { openE2bBackend } from '../../src/backends/e2b/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import { FakeE2b } from '../support/e2b/server.ts'
import { describeOnProvider } from './on-a-provider.ts'

const e2b = await FakeE2b.start()
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
