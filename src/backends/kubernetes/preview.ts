import type { Cluster } from './cluster.ts'
import type { Pod } from './pod.ts'

/** By the pod's own address, which is one within the cluster, unless it was said where those who come from outside get in. */
export function previewUrl({ options }: Cluster, { name, address }: Pod, port: number): string | undefined {
  if (!options.previewUrl) return address && `http://${address.includes(':') ? `[${address}]` : address}:${port}`
  return options.previewUrl
    .replaceAll('{name}', name)
    .replaceAll('{address}', address ?? '')
    .replaceAll('{port}', String(port))
}
