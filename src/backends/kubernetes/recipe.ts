import type { V1Container, V1EnvVar, V1PodSpec, V1Volume } from '@kubernetes/client-node'
import { BackendError, type Wanted } from '../backend.ts'
import { BEFORE_STOP, mainProcess, ROOT_VARIABLE } from '../shell/main-process.ts'
import type { Spec } from '../spec.ts'
import type { KubernetesOptions } from './cluster.ts'
import { AGENT_CONTAINER, SIDECAR_CONTAINER } from './pod.ts'

/** Where an agent works, and what is its home. Nothing else of an image may be written by whoever is not its owner. */
const WORKSPACE = '/workspace'
export const WORKSPACE_VOLUME = 'workspace'

/** Nobody's, in most images: pods that are said to be restricted must not run as root. */
const USER = 1_000
/** For those that others delete: an agent may save what it has. What Sandman ends has less. */
const GRACE_SECONDS = 30

/** Only to be there. It hears when it is to end. */
const IDLING = ['sh', '-c', 'trap "exit 0" TERM; while :; do sleep 3600 & wait $!; done']

/** What Pod Security calls restricted, besides what the pod as a whole has. */
const RESTRICTED = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } }

/**
 * A pod with the agent in a container of its own, and beside it what serves it tools. Where the cluster knows sidecars, that one is
 * started first, and stopped when the agent has ended; elsewhere it lives on, and so does the pod.
 */
export function podSpecOf(
  { spec }: Pick<Wanted, 'spec'>,
  { podSpec = {} }: Pick<KubernetesOptions, 'podSpec'>,
  { hasSidecars, workspace }: { hasSidecars: boolean; workspace?: V1Volume | undefined },
): V1PodSpec {
  const { agent } = spec
  const main: V1Container = {
    ...containerOf(AGENT_CONTAINER, spec),
    command: (agent ? mainProcess(agent.command) : IDLING).map(literal),
    env: [
      ...envOf(agent?.env),
      // Which pod it is, that only Kubernetes knows when it is made.
      { name: ROOT_VARIABLE, valueFrom: { fieldRef: { fieldPath: 'metadata.uid' } } },
    ],
    ...(agent && { lifecycle: { preStop: { exec: { command: BEFORE_STOP } } } }),
  }
  const sidecar: V1Container | undefined = agent?.sidecar && {
    ...containerOf(SIDECAR_CONTAINER, spec),
    command: agent.sidecar.command.map(literal),
    env: envOf(agent.sidecar.env),
  }
  const { volumes = [], initContainers = [], securityContext = {}, ...given } = podSpec as Partial<V1PodSpec>
  return {
    automountServiceAccountToken: given.serviceAccountName !== undefined,
    enableServiceLinks: false,
    terminationGracePeriodSeconds: GRACE_SECONDS,
    ...given,
    restartPolicy: 'Never',
    securityContext: {
      runAsNonRoot: true,
      runAsUser: USER,
      runAsGroup: USER,
      fsGroup: USER,
      seccompProfile: { type: 'RuntimeDefault' },
      ...securityContext,
    },
    initContainers: [...initContainers, ...(sidecar && hasSidecars ? [{ ...sidecar, restartPolicy: 'Always' }] : [])],
    containers: sidecar && !hasSidecars ? [main, sidecar] : [main],
    volumes: [
      ...(workspace ? [workspace] : []),
      ...(spec.readOnlyRoot ? [{ name: 'tmp', emptyDir: {} }] : []),
      ...volumes,
    ],
  }
}

function containerOf(name: string, { template, limits, readOnlyRoot }: Spec): V1Container {
  if (template === undefined)
    throw new BackendError('spec_invalid', 'A sandbox of Kubernetes is made from an image: name one as `template`.')
  const { memoryBytesMax, cpusMax } = limits ?? {}
  const most = {
    ...(memoryBytesMax !== undefined && { memory: String(memoryBytesMax) }),
    ...(cpusMax !== undefined && { cpu: `${Math.round(cpusMax * 1_000)}m` }),
  }
  return {
    name,
    image: template,
    workingDir: WORKSPACE,
    resources: { limits: most },
    securityContext: { ...RESTRICTED, readOnlyRootFilesystem: readOnlyRoot ?? false },
    volumeMounts: [
      { name: WORKSPACE_VOLUME, mountPath: WORKSPACE },
      ...(readOnlyRoot ? [{ name: 'tmp', mountPath: '/tmp' }] : []),
    ],
  }
}

function envOf(env: Record<string, string> = {}): V1EnvVar[] {
  return Object.entries({ HOME: WORKSPACE, ...env }).map(([name, value]) => ({ name, value: literal(value) }))
}

/** As it is: Kubernetes takes `$(NAME)` for another variable's value, and two dollars for one, also where a shell is meant. */
function literal(text: string): string {
  return text.replaceAll('$', '$$$$')
}
