import { CLAIMS, POOLS } from '../../support/kubernetes/extensions.ts'
import type { Json, KubeObject } from '../../support/kubernetes/objects.ts'
import type { FakeKubernetes } from '../../support/kubernetes/server.ts'

export { CLAIMS, POOLS }

const GROUP = '/apis/extensions.agents.x-k8s.io/v1beta1'

/** What the sandboxes of a pool are made of: they only idle, and have a volume, which is their home. */
const TEMPLATE = {
  podTemplate: {
    spec: {
      restartPolicy: 'Never',
      containers: [
        {
          name: 'agent',
          image: 'sandman-test',
          command: ['sh', '-c', 'while :; do sleep 1000; done'],
          workingDir: '/workspace',
          env: [{ name: 'HOME', value: '/workspace' }],
          volumeMounts: [{ name: 'workspace', mountPath: '/workspace' }],
        },
      ],
    },
  },
  volumeClaimTemplates: [
    {
      metadata: { name: 'workspace' },
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    },
  ],
}

/** As whoever looks after the cluster does it. */
async function make(kubernetes: FakeKubernetes, kind: string, name: string, spec: Json): Promise<void> {
  const { server, token } = kubernetes.connect()
  const path = `${GROUP}/namespaces/${kubernetes.namespace}/${kind.toLowerCase()}s`
  const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
  const body = JSON.stringify({ apiVersion: 'extensions.agents.x-k8s.io/v1beta1', kind, metadata: { name }, spec })
  const { ok, status } = await fetch(`${server}${path}`, { method: 'POST', headers, body })
  if (!ok) throw new Error(`${kind} ${name} was not made: ${status}`)
}

export async function makePool(kubernetes: FakeKubernetes, name: string, replicas: number): Promise<void> {
  if (!kubernetes.get('sandboxtemplates.extensions.agents.x-k8s.io', 'idling'))
    await make(kubernetes, 'SandboxTemplate', 'idling', TEMPLATE)
  await make(kubernetes, 'SandboxWarmPool', name, { replicas, sandboxTemplateRef: { name: 'idling' } })
  await stocked(kubernetes, name, replicas)
}

/** A pool of what nobody has described. */
export function makeEmptyPool(kubernetes: FakeKubernetes, name: string): Promise<void> {
  return make(kubernetes, 'SandboxWarmPool', name, { replicas: 0, sandboxTemplateRef: { name: 'no-such-template' } })
}

export async function stocked(kubernetes: FakeKubernetes, name: string, replicas: number): Promise<void> {
  const isStocked = (pool: KubeObject | undefined) => pool?.status?.readyReplicas === replicas
  await kubernetes.when(POOLS, name, isStocked)
}
