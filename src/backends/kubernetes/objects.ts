import { BackendError, type Call } from '../backend.ts'
import type { Api } from './api.ts'
import { isAbsent, isConflict, says, Unreadable } from './errors.ts'
import { LABEL, type Labels } from './labels.ts'
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
 * Makes an object whose name is that of a life, and so is made once, however often and by how many that is asked for. What is there
 * already has to be of that life: `find` shows it.
 */
export async function makeOnce(
  api: Api,
  { path, body }: { path: string; body: object },
  {
    ref,
    life,
    find,
  }: { ref: string; life: string; find(): Promise<{ labels: Labels; isDeleted: boolean } | undefined> },
  call: Call,
): Promise<void> {
  await api.json({ method: 'POST', path, body }, call).catch(async (error: unknown) => {
    if (!says(error, 409, 'AlreadyExists')) throw error
    const there = await find()
    if (there?.labels[LABEL.life] === life && !there.isDeleted) return
    const message = `${ref} is there already, and is being deleted, or is not what was asked for`
    throw new BackendError('sandbox_unreachable', message)
  })
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
