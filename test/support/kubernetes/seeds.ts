import { type Draft, type Json, type KubeObject, rfc3339 } from './objects.ts'
import { specOf } from './pods.ts'
import { apiVersionOf, builtIn, type Resource } from './resources.ts'

const PODS = builtIn({ plural: 'pods', kind: 'Pod' })

/** One that is said to run. */
export function seededPod(namespace: string, n: number, draft: Draft, nowMs: number): KubeObject {
  const spec = {
    restartPolicy: 'Always',
    terminationGracePeriodSeconds: 30,
    nodeName: 'node-1',
    containers: [{ name: 'agent', image: 'sandman-test' }],
    ...draft.spec,
  }
  const metadata = { name: `seeded-${n}`, ...draft.metadata }
  const pod = plantedObject(PODS, namespace, n, { ...draft, metadata, spec }, nowMs)
  return { ...pod, status: runningStatus(pod, pod.metadata.creationTimestamp) }
}

export function plantedObject(
  resource: Resource,
  namespace: string,
  n: number,
  draft: Draft,
  nowMs: number,
): KubeObject {
  const { kind, isNamespaced, storedVersion } = resource
  return {
    apiVersion: apiVersionOf(resource, storedVersion),
    kind,
    ...draft,
    metadata: {
      name: `planted-${n}`,
      ...(isNamespaced && { namespace }),
      ...draft.metadata,
      uid: crypto.randomUUID(),
      resourceVersion: '',
      generation: 1,
      creationTimestamp: rfc3339(nowMs),
    },
  }
}

function runningStatus(pod: KubeObject, at: string): Json {
  const condition = (type: string) => ({ type, status: 'True', lastTransitionTime: at })
  const statusOf = ({ name, image }: { name: string; image: string }) => ({
    name,
    image,
    imageID: '',
    state: { running: { startedAt: at } },
    lastState: {},
    ready: true,
    started: true,
    restartCount: 0,
    containerID: `containerd://${pod.metadata.uid.replaceAll('-', '').repeat(2)}`,
  })
  return {
    phase: 'Running',
    conditions: ['PodScheduled', 'Initialized', 'Ready', 'ContainersReady'].map(condition),
    hostIP: '127.0.0.1',
    podIP: '127.0.0.1',
    podIPs: [{ ip: '127.0.0.1' }],
    startTime: at,
    containerStatuses: specOf(pod).containers.map(statusOf),
    qosClass: 'BestEffort',
  }
}
