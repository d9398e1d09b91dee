import { mkdir, readdir } from 'node:fs/promises'
import path from 'node:path'
import { lockFile } from '../../file-lock.ts'
import { BackendError, type Call, type Owner } from '../backend.ts'
import { wait } from './calls.ts'

/** Where everything of one fleet is. What is not below it cannot be reached, so no other fleet's can. */
export type Home = { fleet: string; instances: string; checkpoints: string; locks: string }

/** One name in a folder, and none that is hidden: those are drafts, and what is being removed. */
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}$/
const LOCK_POLL_MS = 15

export async function makeHome(folder: string, fleet: string): Promise<Home> {
  if (!isName(fleet)) throw new BackendError('spec_invalid', `${JSON.stringify(fleet)} cannot be the name of a fleet`)
  const at = path.resolve(folder, fleet)
  const home: Home = {
    fleet,
    instances: path.join(at, 'instances'),
    checkpoints: path.join(at, 'checkpoints'),
    locks: path.join(at, 'locks'),
  }
  for (const part of [home.instances, home.checkpoints, home.locks]) {
    await mkdir(part, { recursive: true, mode: 0o700 })
  }
  return home
}

/** A ref of another shape was not given by this backend, so there is nothing that it names. */
export function isName(text: string): boolean {
  return NAME.test(text)
}

/** The same for the same life, so that an instance is made once however often it is asked for. */
export function refOf({ sandboxId, life }: Owner): string {
  return mustBeName(`${sandboxId}.${life}`)
}

export function checkpointRefOf(ref: string, key: string): string {
  return `${ref}.${key}`
}

export function mustBeName(text: string): string {
  if (isName(text)) return text
  throw new BackendError('spec_invalid', `${JSON.stringify(text)} cannot be used as the name of a folder`)
}

/** One at a time changes an instance, in this process and in others. A killed worker's lock is taken over. */
export async function withLock<T>(home: Home, ref: string, call: Call, work: () => Promise<T>): Promise<T> {
  if (!isName(ref)) return work() // which will find nothing of that name
  for (;;) {
    const lock = await lockFile(path.join(home.locks, ref))
    if (typeof lock === 'number') {
      await wait(LOCK_POLL_MS, call)
      continue
    }
    try {
      return await work()
    } finally {
      await lock.release()
    }
  }
}

/** Drafts and remains of this name, which a worker that was killed has left. */
export async function leftoversOf(folder: string, prefix: string): Promise<string[]> {
  const names = await readdir(folder)
  return names.filter((name) => name.startsWith(`${prefix}~`)).map((name) => path.join(folder, name))
}
