import { readFile } from 'node:fs/promises'
import path from 'node:path'
import { readHolder } from '../../file-lock.ts'
import { isStillThere, type ProcessIdentity } from '../../process-identity.ts'
import { BackendError, type Owner } from '../backend.ts'
import type { Spec } from '../spec.ts'
import type { Cgroups } from './cgroups.ts'
import { exists, isMissing, readJson } from './files.ts'
import { type Home, isOurs } from './home.ts'

/** Whose it is and what it is made from. Written by whoever holds the instance's lock. */
export type Labels = Owner & {
  fleet: string
  /** In the environment of everything that runs in it. */
  mark: string
  cgroups: Cgroups
  spec: Pick<Spec, 'agent' | 'limits'>
  createdAt: number
  /** The boot of this machine on which its supervisor was started: none of its processes has seen another one. */
  boot: string
}

/** What it was made with, as the supervisor has started it. Written once by it, and there from when the instance is ready. */
export type Started = { agent: ProcessIdentity | undefined; sidecar: ProcessIdentity | undefined }

/** Written by whoever holds the instance's lock. */
export type Life =
  /** `held` names a pause or a waking that was begun: its processes may be frozen until that, or another, is finished. */
  | { is: 'awake'; incarnation: string; held?: string }
  /** `frozen` are the agent and the sidecar, as far as they were alive: what has to be there to be thawed. */
  | { is: 'asleep'; checkpointRef: string; frozen: ProcessIdentity[] }

export type Instance = {
  ref: string
  folder: string
  workspace: string
  supervisorLock: string
  labels: Labels
}

/** Undefined when there is no such instance. */
export async function findInstance(home: Home, ref: string): Promise<Instance | undefined> {
  if (!isOurs(home, ref)) return undefined
  return readInstance(ref, path.join(home.instances, ref))
}

export async function requireInstance(home: Home, ref: string): Promise<Instance> {
  const instance = await findInstance(home, ref)
  if (!instance) throw new BackendError('sandbox_expired', `There is no sandbox ${ref} on this machine`)
  return instance
}

export async function readInstance(ref: string, folder: string): Promise<Instance | undefined> {
  const labels = await readJson<Labels>(path.join(folder, 'instance.json'))
  if (!labels) {
    if (!(await exists(folder))) return undefined
    // Between the two looks it may have been made: then the next one finds it.
    throw new BackendError('sandbox_unreachable', `${folder} has no labels that could be read`)
  }
  return {
    ref,
    folder,
    workspace: path.join(folder, 'workspace'),
    supervisorLock: path.join(folder, 'supervisor.lock'),
    labels,
  }
}

export async function readLife({ folder, ref }: Instance): Promise<Life> {
  const life = await readJson<Life>(lifeFile(folder))
  if (!life) throw new BackendError('sandbox_unreachable', `${ref} is being removed, or has lost its state`)
  return life
}

export const lifeFile = (folder: string) => path.join(folder, 'life.json')
export const startedFile = (folder: string) => path.join(folder, 'started.json')

export async function readStarted({ folder }: Instance): Promise<Started | undefined> {
  return readJson<Started>(startedFile(folder))
}

/** The process that looks after it, if that is still there. */
export async function findSupervisor({ supervisorLock, labels }: Instance): Promise<ProcessIdentity | undefined> {
  if (labels.boot !== (await bootId())) return undefined
  const holder = await readHolder(supervisorLock)
  return holder && (await isStillThere(holder)) ? holder : undefined
}

let knownBootId: string | undefined

/** Differs after every start of the machine, where the system tells: a pid and its birth may come again. */
export async function bootId(): Promise<string> {
  try {
    knownBootId ??= (await readFile('/proc/sys/kernel/random/boot_id', 'utf8')).trim()
    return knownBootId
  } catch (error) {
    if (isMissing(error)) return ''
    throw error // without an answer, everything would seem to be of another boot
  }
}
