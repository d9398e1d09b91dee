import { afterAll } from 'vitest'
import { openAgentSandboxBackend } from '../../src/backends/agent-sandbox/backend.ts'
import type { KubernetesOptions } from '../../src/backends/kubernetes/cluster.ts'
import { type Claims, startWire } from '../../src/conformance/index.ts'
import type { Container } from '../support/kubernetes/runtime/runtime.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../support/kubernetes/server.ts'
import { nameOf, realCluster } from './real-cluster.ts'
import { proveBackend } from './setup.ts'

const { KUBECONFIG, SANDMAN_TEST_LIVE, SANDMAN_KUBERNETES_POOL } = process.env

/** A real cluster is named, and meant. */
export const isLive = KUBECONFIG !== undefined && SANDMAN_TEST_LIVE === '1'

type Sleep = Pick<Claims, 'pausing' | 'ownOutput'>
type Proof = {
  serve: NonNullable<FakeKubernetesOptions['serve']>
  sleep: Sleep
  /** A pool that is there. What is claimed from it is as its template says. */
  pool?: { name: string; make(cluster: FakeKubernetes): Promise<void> }
  only?: string[]
}

const claimsOf = (sleep: Sleep, sidecar: Claims['sidecar'], isClaimed = false): Claims => ({
  ...sleep,
  snapshots: false,
  lease: false,
  labelsAdopted: true,
  memoryLimit: !isClaimed,
  sidecar: isClaimed ? 'none' : sidecar,
})

/** Each version of the resource, and each way to sleep, is a backend of its own. */
export async function proveAgentSandbox(name: string, { serve, sleep, pool, only }: Proof): Promise<void> {
  // Before sidecars were known, so that they outlive the agent.
  const cluster = await FakeKubernetes.start({ version: 'v1.28.4', serve })
  await pool?.make(cluster)
  const wire = await startWire(cluster.url)
  afterAll(async () => {
    await wire.close()
    await cluster.stop()
  })
  const { server, token } = cluster.connect()
  const { namespace } = cluster
  const open = (fleet: string, address: string) =>
    openAgentSandboxBackend({ fleet, connection: { server: address, token }, namespace, pool: pool?.name })
  proveBackend(
    name,
    {
      open: (fleet) => open(fleet, server),
      wire: { wire, open: (fleet) => open(fleet, wire.url) },
      ...(!pool && { spec: { template: 'sandman-test' } }),
      claims: claimsOf(sleep, { isAlive: sidecarsOf(cluster) }, pool !== undefined),
    },
    only,
  )
}

/** By the processes themselves; remembered, because their pod may be gone when they are asked for. */
function sidecarsOf(cluster: FakeKubernetes): (ref: string) => Promise<boolean> {
  const known = new Map<string, Container>()
  return async (ref) => {
    const { uid } = cluster.get('pods', nameOf(ref))?.metadata ?? {}
    const slot = uid ? cluster.cluster.kubelet.worker(uid)?.slot('tool-server') : undefined
    if (slot && !slot.container) return true // it is about to begin
    if (slot?.container) known.set(ref, slot.container)
    return (known.get(ref)?.pids ?? []).length > 0
  }
}

/** What a case has made is ended by it. Faults need a wire, which there is none to here. */
export async function proveAtCluster(): Promise<void> {
  const { namespace, isAlive, hasSidecars } = await realCluster()
  const open = (options: Partial<KubernetesOptions> = {}) => {
    return (fleet: string) => openAgentSandboxBackend({ fleet, namespace, ...options })
  }
  const sleep = await sleepAt(open())
  proveBackend('agent-sandbox, in a real cluster', {
    open: open(),
    spec: { template: 'busybox' },
    claims: claimsOf(sleep, { isAlive, ...(hasSidecars && { endsWithAgent: true }) }),
  })
  if (SANDMAN_KUBERNETES_POOL)
    proveBackend(
      'agent-sandbox, from a pool of a real cluster',
      { open: open({ pool: SANDMAN_KUBERNETES_POOL }), claims: claimsOf(sleep, 'none', true) },
      FROM_A_POOL,
    )
}

/** What does not depend on the template of a pool. */
export const FROM_A_POOL = ['claims', 'life', 'ownership', 'agents', 'pausing', 'lists']

/** What a cluster can keep is its own business. */
async function sleepAt(open: (fleet: string) => ReturnType<typeof openAgentSandboxBackend>): Promise<Sleep> {
  const backend = await open('conformance')
  await backend.close()
  const keeps = backend.pausing === 'none' ? 'none' : backend.pausing.preserves
  return { pausing: keeps, ...(keeps === 'memory' && { ownOutput: 'since it was resumed' }) }
}
