import { once } from 'node:events'
import { createServer, type Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterEach, beforeEach, expect, test } from 'vitest'
import type { Backend } from '../../src/backends/backend.ts'
import { Events } from '../../src/events.ts'
import type { Work } from '../../src/jobs/operation.ts'
import { PATIENCE } from '../../src/jobs/patience.ts'
import { Provider } from '../../src/jobs/provider.ts'
import { wake } from '../../src/jobs/wake.ts'

let app: Server
beforeEach(async () => {
  app = createServer().listen(0, '127.0.0.1')
  await once(app, 'listening')
})
afterEach(() => {
  app.closeAllConnections()
  app.close()
})

test('a preview that accepts and says nothing is let go of at once when its job is given up', async () => {
  const givingUp = new AbortController()
  const url = `http://127.0.0.1:${(app.address() as AddressInfo).port}/`
  const backend: Partial<Backend> = {
    ...{ name: 'test', lease: 'none', pausing: 'none' },
    look: async () => ({ is: 'running', incarnation: 'first' }),
    run: async () => ({ exitCode: 0, output: 'awake' }),
    previewUrl: async () => url,
  }
  const events = new Events()
  const { signal } = givingUp
  const about = { backend: 'test', sandboxId: 'sbx_1', asker: { operationId: 'opn_1' } }
  const provider = new Provider({ ...about, patience: PATIENCE, signal, events })
  const sandbox = { id: 'sbx_1', spec: { wake: { previewPort: 5173 } } }
  const work = { backend, provider, sandbox, events, evidence: {} } as unknown as Work

  const asked = once(app, 'request')
  const waking = wake(work, 'vm', { isNew: true, skipHooks: false }).catch((error: unknown) => error)
  const [request] = await asked
  const letGo = once(request.socket, 'close')
  givingUp.abort(new Error('given up'))
  const began = performance.now()
  await letGo
  expect(performance.now() - began).toBeLessThan(2_500) // and not after its five seconds
  expect(await waking).toMatchObject({ name: 'AbortError' })
})
