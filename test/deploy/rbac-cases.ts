import { openAgentSandboxBackend } from '../../src/backends/agent-sandbox/backend.ts'
import type { Backend } from '../../src/backends/backend.ts'
import type { KubernetesOptions } from '../../src/backends/kubernetes/cluster.ts'
import { openPodBackend } from '../../src/backends/kubernetes-pod/backend.ts'
import type { Spec } from '../../src/backends/spec.ts'
import type { FakeKubernetesOptions } from '../support/kubernetes/server.ts'

export const IMAGE = 'sandman-test'
/** One that wants less of whoever comes with a WebSocket, and one that wants more. */
const BEFORE = 'v1.34.0'
export const SINCE = 'v1.35.0'

export type Case = {
  name: string
  /** All that it has. */
  roles: string[]
  open(options: KubernetesOptions): Promise<Backend>
  cluster: FakeKubernetesOptions & { version: string }
  options?: Partial<KubernetesOptions>
  spec: Spec
  /** What others have made. One of them is named `strange`, and is adopted. */
  others: Other[]
}
export type Other = { api: string; resource: string; object: object }

const agent = { command: ['sh', '-c', 'echo hello; exec sleep 100'] }
const containers = [{ name: 'main', image: IMAGE, command: ['sleep', '100'] }]
const podTemplate = { spec: { containers } }
const strange = (version: 'v1alpha1' | 'v1beta1'): Other => ({
  api: `/apis/agents.x-k8s.io/${version}`,
  resource: 'sandboxes',
  object: { metadata: { name: 'strange' }, spec: { podTemplate } },
})
const EXTENSIONS = '/apis/extensions.agents.x-k8s.io/v1beta1'
const volumeClaimTemplates = [
  {
    metadata: { name: 'files' },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
  },
]
const POOL: Other[] = [
  {
    api: EXTENSIONS,
    resource: 'sandboxtemplates',
    object: { metadata: { name: 'template' }, spec: { podTemplate, volumeClaimTemplates } },
  },
  {
    api: EXTENSIONS,
    resource: 'sandboxwarmpools',
    object: { metadata: { name: 'pool' }, spec: { replicas: 1, sandboxTemplateRef: { name: 'template' } } },
  },
]

const bare: Omit<Case, 'name' | 'cluster'> = {
  roles: ['sandman-kubernetes-pod'],
  open: openPodBackend,
  spec: { template: IMAGE, agent: { ...agent, sidecar: { command: ['sleep', '100'] } } },
  others: [{ api: '/api/v1', resource: 'pods', object: { metadata: { name: 'strange' }, spec: { containers } } }],
}
const kept: Omit<Case, 'name' | 'cluster'> = {
  ...bare,
  roles: ['sandman-agent-sandbox'],
  open: openAgentSandboxBackend,
  others: [strange('v1beta1')],
}

/** Each is another way to work, and asks other things of a cluster. */
export const CASES: Case[] = [
  { ...bare, name: 'bare pods', cluster: { version: BEFORE } },
  { ...bare, name: 'bare pods of a newer cluster', cluster: { version: SINCE } },
  { ...kept, name: 'agent-sandboxes', cluster: { version: SINCE, serve: { sandboxes: ['v1beta1'] } } },
  {
    ...kept,
    name: 'agent-sandboxes as they were',
    cluster: { version: BEFORE, serve: { sandboxes: ['v1alpha1'] } },
    others: [strange('v1alpha1')],
  },
  {
    ...kept,
    name: 'agent-sandboxes of a warm pool',
    roles: ['sandman-agent-sandbox', 'sandman-warm-pools'],
    cluster: { version: SINCE, serve: { sandboxes: ['v1beta1'], extensions: true } },
    options: { pool: 'pool' },
    spec: { agent },
    others: [...POOL, strange('v1beta1')],
  },
  {
    ...kept,
    name: 'agent-sandboxes whose memory is kept',
    roles: ['sandman-agent-sandbox', 'sandman-pod-snapshots'],
    cluster: { version: SINCE, serve: { sandboxes: ['v1beta1'], podSnapshots: true } },
  },
]
