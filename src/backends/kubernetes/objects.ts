import type { Call } from '../backend.ts'
import type { Api } from './api.ts'
import { isAbsent, isConflict, Unreadable } from './errors.ts'
import type { WireMeta } from './pod.ts'

type WireObject = { kind?: string; metadata?: WireMeta }

/** An object as the API server has it now; undefined when it says that there is none of this name. */
export async function findObject<T extends WireObject>(
  api: Api,
  { kind, path, name }: { kind: string; path: string; name: string },
  call: Call,
): Promise<T | undefined> {
  const found = await api.json<T>({ path: `${path}/${name}` }, call).catch((error: unknown) => {
    if (isAbsent(error, name)) return undefined
    throw error
  })
  if (found && found.kind !== kind) throw new Unreadable(`GET ${path}/${name}`, JSON.stringify(found))
  return found
}

/**
 * Changes an object as it was seen: undefined when it has been changed by somebody else since, which includes its controller. Then it
 * has to be looked at again.
 */
export async function changeObject<T extends WireObject>(
  api: Api,
  path: string,
  { name, uid, version }: { name: string; uid: string; version: string },
  { metadata = {}, spec }: { metadata?: object; spec?: object },
  call: Call,
): Promise<T | undefined> {
  const body = { metadata: { ...metadata, uid, resourceVersion: version }, ...(spec && { spec }) }
  const asked = { method: 'PATCH', path: `${path}/${name}`, body, as: 'merge-patch' } as const
  return api.json<T>(asked, call).catch((error: unknown) => {
    if (isConflict(error)) return undefined
    throw error
  })
}
