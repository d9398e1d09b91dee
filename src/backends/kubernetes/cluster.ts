import type { RequestOptions } from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'
import { SandmanError } from '../../errors.ts'
import { optionalPackage } from '../../optional-package.ts'
import { BackendError, type Call } from '../backend.ts'
import { hash } from '../hash.ts'
import { Api } from './api.ts'
import { Unreadable } from './errors.ts'
import { type KubernetesBackendName, selectorOf } from './labels.ts'
import { type Home, PLACE_CHARS } from './names.ts'
import { PodWatch } from './pod-watch.ts'

export type KubernetesOptions = {
  fleet: string
  /** Where the cluster is. Defaults to the kubeconfig (`KUBECONFIG`, `~/.kube/config`), or the cluster that this process runs in. */
  connection?: { server: string; token: string } | undefined
  /** Where the sandboxes are. Defaults to the namespace of the kubeconfig's context. */
  namespace?: string | undefined
  /** What every pod has besides, in Kubernetes' own words: `nodeSelector`, `tolerations`, `imagePullSecrets`, `runtimeClassName`. */
  podSpec?: Record<string, unknown> | undefined
  /** How large the volume is that outlives a pod, and of which class, as `10Gi` or `10Gi:fast`. Defaults to 1Gi of the cluster's own class. */
  storage?: string | undefined
  /** What a pause keeps. Defaults to the memory where the cluster serves pod snapshots, and to what is on the volume elsewhere. */
  pause?: 'disk' | 'memory' | undefined
  /** A warm pool that sandboxes without a template of their own are claimed from. */
  pool?: string | undefined
  /** Where a port of a sandbox is reached, with `{name}`, `{address}` and `{port}`. Defaults to the pod's own address, within the cluster. */
  previewUrl?: string | undefined
}

type Sdk = typeof import('@kubernetes/client-node')
/** As much of a WebSocket as is needed: the SDK brings `ws`, and not its types. */
export type Socket = {
  readonly isPaused: boolean
  onmessage: ((message: { data: Buffer | string }) => void) | null
  on(event: 'close' | 'pong', listener: () => void): void
  send(data: Uint8Array): void
  ping(): void
  pause(): void
  resume(): void
  close(): void
  terminate(): void
}
export type Sockets = {
  /** The signal ends it, also before it is open. */
  connect(path: string, signal: AbortSignal): Promise<Socket>
}

/** A namespace of a cluster, as one fleet uses it. */
export type Cluster = {
  api: Api
  home: Home
  /** How scripts get into a container: the SDK's WebSockets, without the SDK's streams, which take whatever comes. */
  sockets: Sockets
  watch: PodWatch
  /** Main processes whose output is being read in this process: their pods, and by how many. */
  followed: Map<string, { name: string; readers: number }>
  options: KubernetesOptions
}

export async function openCluster(backend: KubernetesBackendName, options: KubernetesOptions) {
  const { fleet } = options
  const sdk = await optionalPackage(
    '@kubernetes/client-node',
    `The backend ${backend}`,
    () => import('@kubernetes/client-node'),
  )
  const config = readConfig(sdk, options)
  const namespace = options.namespace ?? config.getContextObject(config.getCurrentContext())?.namespace ?? 'default'
  const api = new Api(config)
  const watch = new PodWatch(api, namespace, selectorOf({ fleet }, backend))
  const sockets = socketsOf(sdk, config)
  const followed: Cluster['followed'] = new Map()
  let known: Cluster | undefined
  return {
    async find(call: Call): Promise<Cluster> {
      known ??= { api, home: await findHome(api, fleet, namespace, call), sockets, watch, followed, options }
      return known
    },
    async close(): Promise<void> {
      await watch.close()
      api.close()
    },
  }
}

function readConfig({ KubeConfig }: Sdk, { connection }: KubernetesOptions): KubeConfig {
  const config = new KubeConfig()
  if (connection) {
    const { server, token } = connection
    const skipTLSVerify = server.startsWith('http:')
    config.loadFromClusterAndUser({ name: 'cluster', server, skipTLSVerify }, { name: 'sandman', token })
    return config
  }
  config.loadFromDefault()
  if (config.getCurrentCluster()?.server === NOWHERE)
    throw new SandmanError(
      'config_invalid',
      'There is no cluster to talk to: set KUBECONFIG, or run this worker in a pod that has a service account.',
    )
  return config
}

/** The SDK's `Exec` takes no signal; but it asks its configuration for the options of the request, and those may have one. */
function socketsOf({ Exec }: Sdk, config: KubeConfig): Sockets {
  return {
    connect(path, signal) {
      const configured = {
        getCurrentCluster: () => config.getCurrentCluster(),
        async applyToHTTPSOptions(options: RequestOptions) {
          await config.applyToHTTPSOptions(options)
          options.signal = signal
        },
      }
      return new Exec(configured as KubeConfig).handler.connect(path, null, null)
    },
  }
}

/** The address that the SDK takes when it finds no configuration. */
const NOWHERE = 'http://localhost:8080'

/** A namespace keeps its uid for as long as there is anything in it; no other one, of whichever cluster, has the same. */
async function findHome(api: Api, fleet: string, namespace: string, call: Call): Promise<Home> {
  const path = `/api/v1/namespaces/${namespace}`
  const { kind, metadata } = await api.json<{ kind?: string; metadata?: { uid?: string } }>({ path }, call)
  if (kind !== 'Namespace' || !metadata?.uid) throw new Unreadable(`GET ${path}`, JSON.stringify({ kind, metadata }))
  return { fleet, namespace, place: hash(metadata.uid, PLACE_CHARS) }
}

/** At the same address another cluster may answer since, which knows of nothing that was in the one before. */
export async function requireSame({ api, home }: Cluster, ref: string, call: Call): Promise<void> {
  const { place } = await findHome(api, home.fleet, home.namespace, call)
  if (place === home.place) return
  throw new BackendError(
    'sandbox_unreachable',
    `Another cluster, or another namespace of the same name, answers than the one that this worker has begun with, so nobody can say that there is no ${ref}: restart the worker if that is meant.`,
  )
}
