import path from 'node:path'
import type { Backend, BackendAbilities } from './backend.ts'
import type { KubernetesOptions } from './kubernetes/cluster.ts'
import type { BackendName } from './names.ts'

type OpenOptions = {
  fleet: string
  dataFolder: string
  docker?: { pause?: 'freeze' | 'disk' | 'checkpoint' | undefined; network?: string | undefined } | undefined
  /** What is left out the SDK takes from the environment. */
  e2b?: Partial<Record<'apiKey' | 'apiUrl' | 'domain' | 'sandboxUrl', string | undefined>> | undefined
  kubernetes?: Omit<KubernetesOptions, 'fleet'> | undefined
  agentuity?: Partial<Record<'apiKey' | 'url' | 'region' | 'orgId', string | undefined>> | undefined
}

type Listed = Omit<BackendAbilities, 'name'> & { open(options: OpenOptions): Promise<Backend> }

/**
 * What each backend can do, known without loading it: a web app judges requests by this, and has no provider's SDK. A worker
 * opens those that are switched on.
 */
export const BACKENDS = {
  local: {
    canPause: true,
    canSnapshot: true,
    async open({ fleet, dataFolder }) {
      const { openLocalBackend } = await import('./local/backend.ts')
      return openLocalBackend({ folder: path.join(dataFolder, 'sandboxes'), fleet })
    },
  },
  docker: {
    canPause: true,
    canSnapshot: true,
    async open({ fleet, docker }) {
      const { openDockerBackend } = await import('./docker/backend.ts')
      return openDockerBackend({ fleet, ...docker })
    },
  },
  e2b: {
    canPause: true,
    canSnapshot: true,
    async open({ fleet, e2b }) {
      const { openE2bBackend } = await import('./e2b/backend.ts')
      return openE2bBackend({ fleet, ...e2b })
    },
  },
  'kubernetes-pod': {
    canPause: false,
    canSnapshot: false,
    async open({ fleet, kubernetes }) {
      const { openPodBackend } = await import('./kubernetes-pod/backend.ts')
      return openPodBackend({ fleet, ...kubernetes })
    },
  },
  'agent-sandbox': {
    canPause: true,
    canSnapshot: false,
    async open({ fleet, kubernetes }) {
      const { openAgentSandboxBackend } = await import('./agent-sandbox/backend.ts')
      return openAgentSandboxBackend({ fleet, ...kubernetes })
    },
  },
  agentuity: {
    canPause: true,
    canSnapshot: true,
    async open({ fleet, agentuity }) {
      const { openAgentuityBackend } = await import('./agentuity/backend.ts')
      return openAgentuityBackend({ fleet, ...agentuity })
    },
  },
} as const satisfies Record<BackendName, Listed>

export function listedAbilities(): BackendAbilities[] {
  return Object.entries(BACKENDS).map(([name, { canPause, canSnapshot }]) => ({ name, canPause, canSnapshot }))
}
