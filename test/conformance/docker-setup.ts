import { afterAll, expect, test } from 'vitest'
import { openDockerBackend } from '../../src/backends/docker/backend.ts'
import { type Claims, startWire } from '../../src/conformance/index.ts'
import { ask } from '../support/docker/engine.ts'
import { engineSocket } from '../support/docker/offer-engine.ts'
import { proveBackend } from './setup.ts'

/** Each way to put a container to sleep is a backend of its own. */
export async function proveDocker(
  pause: 'freeze' | 'disk',
  pausing: Claims['pausing'],
  only?: string[],
): Promise<void> {
  const socketPath = await engineSocket()
  if (socketPath === undefined)
    return test('there is no engine, so nothing of this was tried', () => expect(socketPath).toBeUndefined())

  const wire = await startWire(`unix:${socketPath}`)
  afterAll(() => wire.close())
  const here = { socketPath }
  const there = { host: '127.0.0.1', port: wire.port, protocol: 'http' } as const
  const open = (fleet: string, connection: typeof here | typeof there) =>
    openDockerBackend({ fleet, pause, network: 'none', connection })
  proveBackend(
    `docker, pause by ${pause}`,
    {
      open: (fleet) => open(fleet, here),
      wire: { wire, open: (fleet) => open(fleet, there) },
      spec: { template: 'sandman-test' },
      async damage(checkpointRef) {
        const images = await tell<{ RepoTags: string[] | null }[]>(socketPath, '/images/json')
        const tags = images.flatMap(({ RepoTags }) => RepoTags ?? [])
        const key = checkpointRef.slice(checkpointRef.lastIndexOf('-') + 1)
        for (const tag of tags.filter((each) => each.endsWith(key))) await ask(socketPath, 'DELETE', `/images/${tag}`)
      },
      claims: {
        pausing,
        snapshots: true,
        lease: false,
        labelsAdopted: false,
        memoryLimit: true,
        sidecar: { isAlive: (ref) => isSidecarAlive(socketPath, ref) },
      },
    },
    only,
  )
}

/** By the engine's own word, and not by the backend's. */
async function isSidecarAlive(socketPath: string, ref: string): Promise<boolean> {
  const label = [`sandman.ref=${ref}`, 'sandman.part=sidecar']
  const filters = encodeURIComponent(JSON.stringify({ label, status: ['running', 'paused'] }))
  return (await tell<unknown[]>(socketPath, `/containers/json?filters=${filters}`)).length > 0
}

async function tell<T>(socketPath: string, path: string): Promise<T> {
  return JSON.parse(await ask(socketPath, 'GET', path)) as T
}
