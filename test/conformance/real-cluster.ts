import { CoreV1Api, KubeConfig, type V1Pod, VersionApi } from '@kubernetes/client-node'

type RealCluster = {
  namespace: string
  /** It knows sidecars, and stops them when the agent has ended. */
  hasSidecars: boolean
  /** Whether the sidecar of a sandbox runs. */
  isAlive(ref: string): Promise<boolean>
}

/** The cluster that the kubeconfig names, as it is seen by somebody who is not a backend. */
export async function realCluster(): Promise<RealCluster> {
  const config = new KubeConfig()
  config.loadFromDefault()
  const namespace = config.getContextObject(config.getCurrentContext())?.namespace ?? 'default'
  const core = config.makeApiClient(CoreV1Api)
  const { minor } = await config.makeApiClient(VersionApi).getCode()
  const isAlive = async (ref: string) => {
    const pod: V1Pod | undefined = await core
      .readNamespacedPod({ namespace, name: nameOf(ref) })
      .catch((error: { code?: number }) => {
        if (error.code !== 404) throw error
        return undefined
      })
    const { containerStatuses = [], initContainerStatuses = [] } = pod?.status ?? {}
    const status = [...containerStatuses, ...initContainerStatuses].find(({ name }) => name === 'tool-server')
    return status?.state?.running !== undefined
  }
  return { namespace, hasSidecars: Number.parseInt(minor, 10) >= 29, isAlive }
}

/** What its pod is called. */
export function nameOf(ref: string): string {
  return ref.slice(ref.lastIndexOf('/') + 1)
}
