import { afterAll, expect, test } from 'vitest'
import { openDockerBackend } from '../../src/backends/docker/backend.ts'
import { startWire } from '../../src/conformance/index.ts'
import { ask } from '../support/docker/engine.ts'
import { engineSocket } from '../support/docker/offer-engine.ts'
import { proveBackend } from './setup.ts'

const socketPath = await engineSocket()

/** By the engine's own word, and not by the backend's. */
async function isSidecarAlive(ref: string): Promise<boolean> {
  const filters = JSON.stringify({
    label: [`sandman.ref=${ref}`, 'sandman.part=sidecar'],
    status: ['running', 'paused'],
  })
  const path = `/containers/json?filters=${encodeURIComponent(filters)}`
  return (JSON.parse(await ask(socketPath as string, 'GET', path)) as unknown[]).length > 0
}

if (socketPath === undefined)
  test('there is no engine, so nothing of this was tried', () => expect(socketPath).toBeUndefined())
else {
  const wire = await startWire(`unix:${socketPath}`)
  afterAll(() => wire.close())
  const here = { socketPath }
  const there = { host: '127.0.0.1', port: wire.port, protocol: 'http' } as const
  for (const [pause, preserves, only] of [
    ['freeze', 'memory', undefined],
    ['disk', 'disk', ['claims', 'pausing', 'snapshots']],
  ] as const) {
    const open = (fleet: string, connection: typeof here | typeof there) =>
      openDockerBackend({ fleet, pause, network: 'none', connection })
    proveBackend(
      `docker, pause by ${pause}`,
      {
        open: (fleet) => open(fleet, here),
        wire: { wire, open: (fleet) => open(fleet, there) },
        spec: { template: 'sandman-test' },
        async damage(checkpointRef) {
          const images = JSON.parse(await ask(socketPath, 'GET', '/images/json')) as { RepoTags: string[] | null }[]
          const tags = images.flatMap(({ RepoTags }) => RepoTags ?? [])
          const key = checkpointRef.slice(checkpointRef.lastIndexOf('-') + 1)
          for (const tag of tags.filter((each) => each.endsWith(key))) await ask(socketPath, 'DELETE', `/images/${tag}`)
        },
        claims: {
          pausing: preserves,
          snapshots: true,
          lease: false,
          labelsAdopted: false,
          memoryLimit: true,
          sidecar: { isAlive: isSidecarAlive },
        },
      },
      only && [...only],
    )
  }
}
