import { afterAll } from 'vitest'
import { openAgentSandboxBackend } from '../../src/backends/agent-sandbox/backend.ts'
import { type Claims, startWire } from '../../src/conformance/index.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../support/kubernetes/server.ts'
import { proveBackend } from './setup.ts'

/** Each version of the resource, and each way to sleep, is a backend of its own. */
export async function proveAgentSandbox(
  name: string,
  serve: NonNullable<FakeKubernetesOptions['serve']>,
  { pausing }: Pick<Claims, 'pausing'>,
  only?: string[],
): Promise<void> {
  // Before sidecars were known, so that they outlive the agent.
  const cluster = await FakeKubernetes.start({ version: 'v1.28.4', serve })
  const wire = await startWire(cluster.url)
  afterAll(async () => {
    await wire.close()
    await cluster.stop()
  })
  const { server, token } = cluster.connect()
  const open = (fleet: string, address: string) =>
    openAgentSandboxBackend({ fleet, connection: { server: address, token }, namespace: cluster.namespace })
  proveBackend(
    name,
    {
      open: (fleet) => open(fleet, server),
      wire: { wire, open: (fleet) => open(fleet, wire.url) },
      spec: { template: 'sandman-test' },
      claims: {
        pausing,
        snapshots: false,
        lease: false,
        labelsAdopted: true,
        memoryLimit: true,
        sidecar: { isAlive: async (ref) => cluster.isContainerRunning(ref.slice(ref.lastIndexOf('/') + 1), 'tool-server') },
      },
    },
    only,
  )
}
