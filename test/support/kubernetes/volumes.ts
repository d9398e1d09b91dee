import { mkdir, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { isObject, type Json, type KubeObject } from './objects.ts'
import { type ContainerSpec, specOf } from './pods.ts'
import type { Store } from './store.ts'

type Mount = { mountPath: string; folder: string }

/** The folders behind the volumes: one for each claim, which outlives the pods that use it, and one for all else of a pod. */
export class Volumes {
  readonly #root: string
  readonly #store: Store
  /** Pods that have the folder of another one, which they go on from. */
  readonly #inherited = new Map<string, string>()
  readonly #kept = new Set<string>()

  constructor(root: string, store: Store) {
    this.#root = root
    this.#store = store
  }

  folderOfClaim(uid: string): string {
    return path.join(this.#root, 'claims', uid)
  }

  folderOfPod(uid: string): string {
    return path.join(this.#root, 'pods', this.#inherited.get(uid) ?? uid)
  }

  /** Its folder outlives it, because somebody may go on from there. */
  keep(uid: string): void {
    this.#kept.add(this.#inherited.get(uid) ?? uid)
  }

  inherit(uid: string, from: string): void {
    const folder = this.#inherited.get(from) ?? from
    this.#inherited.set(uid, folder)
    this.#kept.delete(folder)
  }

  /** Nobody will. */
  async release(uid: string): Promise<void> {
    this.#kept.delete(this.#inherited.get(uid) ?? uid)
    await this.forgetPod(uid)
  }

  /** The name of a claim that is not there. Without it, a pod is not scheduled. */
  missingClaim(pod: KubeObject): string | undefined {
    return claimsOf(pod).find((name) => !this.#store.get('persistentvolumeclaims', pod.metadata.namespace, name))
  }

  async mountsOf(pod: KubeObject, { volumeMounts = [] }: ContainerSpec): Promise<Mount[]> {
    const mounts: Mount[] = []
    for (const { name, mountPath, subPath = '' } of volumeMounts) {
      const folder = path.join(await this.#folderOf(pod, name), subPath)
      await mkdir(folder, { recursive: true })
      mounts.push({ mountPath, folder })
    }
    return mounts
  }

  async forgetPod(uid: string): Promise<void> {
    if (this.#kept.has(this.#inherited.get(uid) ?? uid)) return
    await rm(this.folderOfPod(uid), { recursive: true, force: true, maxRetries: 3 })
  }

  async forgetClaim(uid: string): Promise<void> {
    await rm(this.folderOfClaim(uid), { recursive: true, force: true, maxRetries: 3 })
  }

  async #folderOf(pod: KubeObject, name: string): Promise<string> {
    const { namespace, uid } = pod.metadata
    const volume: Json = specOf(pod).volumes?.find((one) => one.name === name) ?? { name }
    const claimName = claimNameOf(volume)
    const claim = claimName && this.#store.get('persistentvolumeclaims', namespace, claimName)
    if (claim) return this.folderOfClaim(claim.metadata.uid)
    const folder = path.join(this.folderOfPod(uid), 'volumes', name)
    await mkdir(folder, { recursive: true })
    const { configMap, secret } = volume
    if (isObject(configMap)) await this.#fill(folder, 'configmaps', namespace, configMap.name)
    if (isObject(secret)) await this.#fill(folder, 'secrets', namespace, secret.secretName)
    return folder
  }

  async #fill(folder: string, resource: string, namespace: string | undefined, name: unknown): Promise<void> {
    const data = this.#store.get(resource, namespace, String(name))?.data
    const encoding = resource === 'secrets' ? 'base64' : 'utf8'
    for (const [key, value] of Object.entries(isObject(data) ? data : {}))
      await writeFile(path.join(folder, key), Buffer.from(String(value), encoding))
  }
}

export function claimsOf(pod: KubeObject): string[] {
  return (specOf(pod).volumes ?? []).flatMap((volume) => claimNameOf(volume) ?? [])
}

function claimNameOf(volume: Json): string | undefined {
  const claim = volume.persistentVolumeClaim
  return isObject(claim) ? String(claim.claimName) : undefined
}
