import { ApiError, badRequest } from './api-error.ts'
import type { KubeObject } from './objects.ts'
import type { PodWorker } from './pod-worker.ts'
import { specOf } from './pods.ts'
import type { ContainerLog } from './runtime/log.ts'

export type LogOptions = {
  follow: boolean
  timestamps: boolean
  sinceNs: bigint | undefined
  tailLines: number | undefined
  limitBytes: number | undefined
}

const NS_OF_S = 1_000_000_000n

export function logOptions(query: URLSearchParams, nowMs: number): LogOptions {
  const number = (name: string) => (query.get(name) === null ? undefined : Number(query.get(name)))
  const sinceTime = query.get('sinceTime')
  const sinceSeconds = number('sinceSeconds')
  if (sinceTime !== null && sinceSeconds !== undefined)
    throw badRequest('at most one of `sinceTime` or `sinceSeconds` may be specified')
  const fromMs = sinceTime !== null ? Date.parse(sinceTime) : sinceSeconds && nowMs - sinceSeconds * 1000
  if (Number.isNaN(fromMs)) throw badRequest(`parsing time "${sinceTime}" as "2006-01-02T15:04:05Z07:00": cannot parse`)
  return {
    follow: query.get('follow') === 'true',
    timestamps: query.get('timestamps') === 'true',
    // The fraction is lost on the way to the kubelet.
    sinceNs: fromMs === undefined ? undefined : BigInt(Math.floor(fromMs / 1000)) * NS_OF_S,
    tailLines: number('tailLines'),
    limitBytes: number('limitBytes'),
  }
}

/** Which container is meant. It need not be named where there is only one. */
export function containerNameOf(pod: KubeObject, asked: string): string {
  const { name } = pod.metadata
  const { containers, initContainers = [] } = specOf(pod)
  const all = [...initContainers, ...containers].map((one) => one.name)
  const [only] = containers
  if (asked === '') {
    if (only && containers.length === 1 && initContainers.length === 0) return only.name
    const inits =
      initContainers.length > 0
        ? ` or one of the init containers: [${initContainers.map((one) => one.name).join(' ')}]`
        : ''
    const names = containers.map((one) => one.name).join(' ')
    throw badRequest(`a container name must be specified for pod ${name}, choose one of: [${names}]${inits}`)
  }
  if (!all.includes(asked)) throw badRequest(`container ${asked} is not valid for pod ${name}`)
  return asked
}

/** What there is to be read. Undefined where there is nothing yet, which is no failure. */
export function findLog(
  pod: KubeObject,
  worker: PodWorker | undefined,
  query: URLSearchParams,
): ContainerLog | undefined {
  const { name } = pod.metadata
  const container = containerNameOf(pod, query.get('container') ?? '')
  if (!specOf(pod).nodeName || !worker) return undefined
  if (worker.isLost) throw unreachableKubelet(pod, `containerLogs/${pod.metadata.namespace}/${name}/${container}`)
  const slot = worker.slot(container)
  const isWaiting = slot && 'waiting' in slot.state
  if (query.get('previous') === 'true') {
    const last = isWaiting ? slot.container : slot?.previous
    if (!slot?.lastState || !last)
      throw badRequest(`previous terminated container "${container}" in pod "${name}" not found`)
    return last.log
  }
  if (slot?.container) return slot.container.log
  const { reason } = slot && 'waiting' in slot.state ? slot.state.waiting : { reason: 'ContainerCreating' }
  const why =
    reason === 'ImagePullBackOff'
      ? 'trying and failing to pull image'
      : reason === 'ErrImagePull'
        ? "image can't be pulled"
        : reason
  throw badRequest(`container "${container}" in pod "${name}" is waiting to start: ${why}`)
}

export function unreachableKubelet(pod: KubeObject, path: string): ApiError {
  const node = specOf(pod).nodeName ?? 'node-1'
  return new ApiError(
    500,
    'InternalError',
    `Get "https://${node}:10250/${path}": dial tcp 10.0.0.2:10250: connect: no route to host`,
  )
}
