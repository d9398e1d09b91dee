import { afterAll, expect, test } from 'vitest'
import { openDockerBackend } from '../../src/backends/docker/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import { ask } from '../support/docker/engine.ts'
import { engineSocket } from '../support/docker/offer-engine.ts'
import { describeOnProvider } from './on-a-provider.ts'

const socketPath = await engineSocket()

if (socketPath === undefined)
  test('there is no engine, so nothing of this was tried', () => expect(socketPath).toBeUndefined())
else {
  const wire = await startWire(`unix:${socketPath}`)
  afterAll(() => wire.close())
  const common = { pause: 'freeze', network: 'none' } as const
  const containersOf = async (ref: string) => {
    const filters = encodeURIComponent(JSON.stringify({ label: [`sandman.ref=${ref}`] }))
    return JSON.parse(await ask(socketPath, 'GET', `/containers/json?all=1&filters=${filters}`)) as { Id: string }[]
  }
  describeOnProvider({
    name: 'docker',
    wire,
    open: (fleet) =>
      openDockerBackend({ ...common, fleet, connection: { host: '127.0.0.1', port: wire.port, protocol: 'http' } }),
    truth: (fleet) => openDockerBackend({ ...common, fleet, connection: { socketPath } }),
    spec: { template: 'sandman-test' },
    async remove(ref) {
      for (const { Id } of await containersOf(ref)) await ask(socketPath, 'DELETE', `/containers/${Id}?force=1`)
    },
    creates: ({ method, path }) => method === 'POST' && path.includes('/containers/create'),
    ends: ({ method, path }) =>
      method !== 'GET' && /\/containers\/[^/]+(\/kill|\/stop|\?|$)/.test(path) && !path.includes('/containers/create'),
    agentEnds: {
      limits: { memoryBytesMax: 32 << 20 },
      script: 'a=xxxxxxxx; while :; do a=$a$a; done',
      as: { reason: 'oom_killed', exitCode: 137 },
    },
  })
}
