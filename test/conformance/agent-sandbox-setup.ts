import { afterAll } from 'vitest'
import { openAgentSandboxBackend } from '../../src/backends/agent-sandbox/backend.ts'
import { type Claims, startWire } from '../../src/conformance/index.ts'
import type { Container } from '../support/kubernetes/runtime/runtime.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../support/kubernetes/server.ts'
import { proveBackend } from './setup.ts'

/** Each version of the resource, and each way to sleep, is a backend of its own. */
export async function proveAgentSandbox(
  name: string,
  serve: NonNullable<FakeKubernetesOptions['serve']>,
  pausing: Pick<Claims, 'pausing' | 'ownOutput'>,
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
        ...pausing,
        snapshots: false,
        lease: false,
        labelsAdopted: true,
        memoryLimit: true,
        sidecar: { isAlive: sidecarsOf(cluster) },
      },
    },
    only,
  )
}

/** By the processes themselves; remembered, because their pod may be gone when they are asked for. */
function sidecarsOf(cluster: FakeKubernetes): (ref: string) => Promise<boolean> {
  const known = new Map<string, Container>()
  return async (ref) => {
    const { uid } = cluster.get('pods', ref.slice(ref.lastIndexOf('/') + 1))?.metadata ?? {}
    const slot = uid ? cluster.cluster.kubelet.worker(uid)?.slot('tool-server') : undefined
    if (slot && !slot.container) return true // it is about to begin
    if (slot?.container) known.set(ref, slot.container)
    return (known.get(ref)?.pids ?? []).length > 0
  }
}
