import { afterAll } from 'vitest'
import { openDockerBackend } from '../../src/backends/docker/backend.ts'
import { startWire } from '../../src/conformance/wire.ts'
import { ask } from '../support/docker/engine.ts'
import { proveBackend } from './setup.ts'

const socketPath = '/tmp/dk/docker.sock'
const wire = await startWire(`unix:${socketPath}`)
afterAll(() => wire.close())
const pause = (process.env.PAUSE ?? 'freeze') as 'freeze' | 'disk'
const more = { network: 'none', pause, ...(process.env.RUNTIME && { runtime: process.env.RUNTIME }) }
const wired = (fleet: string) =>
  openDockerBackend({ fleet, ...more, connection: { host: '127.0.0.1', port: wire.port, protocol: 'http' } })

proveBackend(`docker`, {
  open: (fleet) => openDockerBackend({ fleet, ...more, connection: { socketPath } }),
  spec: { template: 'sandman-test' },
  claims: {
    pausing: pause === 'disk' ? 'disk' : 'memory',
    snapshots: true,
    lease: false,
    labelsAdopted: false,
    memoryLimit: !process.env.RUNTIME,
    sidecar: process.env.RUNTIME
      ? 'none'
      : {
          isAlive: async (ref) =>
            JSON.parse(await ask(socketPath, 'GET', `/containers/${ref}.sidecar/json`)).State?.Running === true,
        },
  },
  wire: { open: wired, wire },
})
