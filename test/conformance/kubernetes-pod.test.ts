import { afterAll } from 'vitest'
import { openPodBackend } from '../../src/backends/kubernetes-pod/backend.ts'
import { type Claims, startWire } from '../../src/conformance/index.ts'
import type { Container } from '../support/kubernetes/runtime/runtime.ts'
import { FakeKubernetes } from '../support/kubernetes/server.ts'
import { nameOf, realCluster } from './real-cluster.ts'
import { proveBackend } from './setup.ts'

const claimsWith = (isAlive: (ref: string) => Promise<boolean>, hasSidecars: boolean): Claims => ({
  pausing: 'none',
  snapshots: false,
  lease: false,
  labelsAdopted: true,
  memoryLimit: true,
  // Where the cluster knows sidecars, they are stopped when the agent has ended.
  sidecar: { isAlive, ...(hasSidecars && { endsWithAgent: true }) },
})

const { KUBECONFIG, SANDMAN_TEST_LIVE: isLive } = process.env

if (KUBECONFIG && isLive === '1') await proveAtCluster()
else {
  await proveAtFake('kubernetes-pod', { version: 'v1.28.0', hasSidecars: false })
  await proveAtFake('kubernetes-pod, with sidecars', {
    version: 'v1.33.0',
    hasSidecars: true,
    only: ['life', 'commands', 'agents'],
  })
}

/** What a case has made is ended by it. Faults need a wire, which there is none to here. */
async function proveAtCluster(): Promise<void> {
  const { isAlive, hasSidecars } = await realCluster()
  proveBackend('kubernetes-pod, in a real cluster', {
    open: (fleet) => openPodBackend({ fleet }),
    spec: { template: 'busybox' },
    claims: claimsWith(isAlive, hasSidecars),
  })
}

async function proveAtFake(
  name: string,
  { version, hasSidecars, only }: { version: string; hasSidecars: boolean; only?: string[] },
): Promise<void> {
  const kubernetes = await FakeKubernetes.start({ version })
  const wire = await startWire(kubernetes.url)
  afterAll(async () => {
    await wire.close()
    await kubernetes.stop()
  })
  /** Remembered, because their pod may be gone when they are asked for. */
  const sidecars = new Map<string, Container>()
  const isAlive = async (ref: string) => {
    const { uid } = kubernetes.get('pods', nameOf(ref))?.metadata ?? {}
    const slot = uid ? kubernetes.cluster.kubelet.worker(uid)?.slot('tool-server') : undefined
    if (slot && !slot.container) return true // it is about to begin
    if (slot?.container) sidecars.set(ref, slot.container)
    return (sidecars.get(ref)?.pids ?? []).length > 0
  }
  const { namespace } = kubernetes
  const connection = kubernetes.connect()
  const through = { ...connection, server: wire.url }
  proveBackend(
    name,
    {
      open: (fleet) => openPodBackend({ fleet, namespace, connection }),
      spec: { template: 'sandman-test' },
      claims: claimsWith(isAlive, hasSidecars),
      wire: { wire, open: (fleet) => openPodBackend({ fleet, namespace, connection: through }) },
    },
    only,
  )
}
