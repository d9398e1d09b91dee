import { isObject, type KubeObject } from './objects.ts'
import type { ContainerSpec, EnvVar } from './pods.ts'
import type { Store } from './store.ts'

/** What keeps a container from being made. */
export class ConfigError extends Error {}

/** What a container finds in its environment. Values may name those that stand before them. */
export function environmentOf(store: Store, pod: KubeObject, { env = [] }: ContainerSpec): Record<string, string> {
  const all: Record<string, string> = { HOSTNAME: pod.metadata.name }
  for (const one of env) {
    const value = one.valueFrom ? referred(store, pod, one) : expand(one.value ?? '', all)
    if (value !== undefined) all[one.name] = value
  }
  return all
}

/** What is run, with `$(NAME)` of the environment filled in. An image without a command of its own waits. */
export function commandOf({ command = [], args = [] }: ContainerSpec, env: Record<string, string>): string[] {
  const whole = [...command, ...args].map((text) => expand(text, env))
  return whole.length === 0 ? ['sleep', 'infinity'] : whole
}

/**
 * As the kubelet does it, which knows nothing of shells: `$(NAME)` is a value if there is one, and stays as it is if not, and `$$` is
 * one dollar, wherever it stands.
 */
export function expand(text: string, env: Record<string, string>): string {
  return text.replace(/\$(?:\$|\(([^)]*)\))/g, (found, name?: string) =>
    name === undefined ? '$' : Object.hasOwn(env, name) ? (env[name] ?? '') : found,
  )
}

function referred(store: Store, pod: KubeObject, { valueFrom = {} }: EnvVar): string | undefined {
  const { fieldRef, secretKeyRef, configMapKeyRef } = valueFrom
  if (isObject(fieldRef)) return fieldOf(pod, String(fieldRef.fieldPath))
  const ref = isObject(secretKeyRef) ? secretKeyRef : isObject(configMapKeyRef) ? configMapKeyRef : undefined
  if (!ref) return ''
  const kind = isObject(secretKeyRef) ? 'secret' : 'configmap'
  const name = String(ref.name)
  const found = store.get(`${kind}s`, pod.metadata.namespace, name)
  const value = isObject(found?.data) ? found.data[String(ref.key)] : undefined
  if (value === undefined && ref.optional === true) return undefined
  if (!found) throw new ConfigError(`${kind} "${name}" not found`)
  if (value === undefined)
    throw new ConfigError(`couldn't find key ${String(ref.key)} in ${kind} ${pod.metadata.namespace}/${name}`)
  return kind === 'secret' ? Buffer.from(String(value), 'base64').toString() : String(value)
}

function fieldOf({ metadata, spec, status }: KubeObject, path: string): string {
  const [, which, key = ''] = path.match(/^metadata\.(labels|annotations)\['(.+)'\]$/) ?? []
  if (which === 'labels') return metadata.labels?.[key] ?? ''
  if (which === 'annotations') return metadata.annotations?.[key] ?? ''
  const values: Record<string, unknown> = {
    'metadata.name': metadata.name,
    'metadata.namespace': metadata.namespace,
    'metadata.uid': metadata.uid,
    'spec.nodeName': spec?.nodeName,
    'status.podIP': status?.podIP ?? '127.0.0.1',
    'status.hostIP': status?.hostIP ?? '127.0.0.1',
  }
  return String(values[path] ?? '')
}
