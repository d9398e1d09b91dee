import { randomBytes } from 'node:crypto'
import { mkdir, readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { createWhole, lockFile } from '../../file-lock.ts'
import { unlessGivenUp } from '../answer.ts'
import { BackendError, type Call, type Owner } from '../backend.ts'
import { isFolderName } from '../folder-name.ts'
import { wait } from './calls.ts'
import { exists } from './files.ts'

/** Where everything of one fleet is. What is not below it cannot be reached, so no other fleet's can. */
export type Home = {
  fleet: string
  /** Part of every name that it gives, so that it never says of another machine's sandbox that there is no such thing. */
  id: string
  instances: string
  checkpoints: string
  locks: string
}

const HOME_ID = /^[0-9a-f]{8}$/
const LOCK_POLL_MS = 15

export async function makeHome(folder: string, fleet: string): Promise<Home> {
  if (!isFolderName(fleet))
    throw new BackendError('spec_invalid', `${JSON.stringify(fleet)} cannot be the name of a fleet`)
  const at = path.resolve(folder, fleet)
  const home = {
    fleet,
    instances: path.join(at, 'instances'),
    checkpoints: path.join(at, 'checkpoints'),
    locks: path.join(at, 'locks'),
  }
  for (const part of [home.instances, home.checkpoints, home.locks]) {
    await mkdir(part, { recursive: true, mode: 0o700 })
  }
  return { ...home, id: await identify(path.join(at, 'home')) }
}

/** Whether anything was ever made here. Who only wants to see what there is makes nothing. */
export function hasHome(folder: string, fleet: string): Promise<boolean> {
  return exists(path.resolve(folder, fleet, 'home'))
}

/** Given once, by whoever comes first. */
async function identify(file: string): Promise<string> {
  const given = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return undefined
    throw error
  })
  if (given !== undefined) return given
  await createWhole(file, randomBytes(4).toString('hex'))
  return readFile(file, 'utf8')
}

/** Whether there can be something of this name here. A ref of another shape was not given by this backend, and names nothing. What another home has named is somewhere, and nobody here can see it. */
export function isOurs(home: Home, ref: string): boolean {
  if (!isElsewhere(home, ref)) return isFolderName(ref) && homeOf(ref) === home.id
  throw new BackendError(
    'sandbox_unreachable',
    `${ref} is on another machine, or in another folder, than this worker's (${home.id}): all workers of a fleet that have this backend run on one, with the same SANDMAN_DATA.`,
  )
}

/** Whether another home has named it. */
export function isElsewhere({ id }: Home, ref: string): boolean {
  return isFolderName(ref) && homeOf(ref) !== id && HOME_ID.test(homeOf(ref))
}

function homeOf(ref: string): string {
  return ref.split('.', 1)[0] ?? ''
}

/** The same for the same life, so that an instance is made once however often it is asked for. */
export function refOf({ id }: Home, { sandboxId, life }: Owner): string {
  return mustBeName(`${id}.${sandboxId}.${life}`)
}

export function checkpointRefOf(ref: string, key: string): string {
  return `${ref}.${key}`
}

export function mustBeName(text: string): string {
  if (isFolderName(text)) return text
  throw new BackendError('spec_invalid', `${JSON.stringify(text)} cannot be used as the name of a folder`)
}

/** One at a time changes an instance, in this process and in others. A killed worker's lock is taken over. */
export async function withLock<T>(home: Home, ref: string, call: Call, work: () => Promise<T>): Promise<T> {
  if (!isOurs(home, ref)) return work() // which will find nothing of that name
  const file = path.join(home.locks, ref)
  return inTurn(file, call, async () => {
    for (;;) {
      const lock = await lockFile(file)
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
  })
}

/** Who came last for which lock. */
const turns = new Map<string, Promise<void>>()

/** One after the other within this process: hundreds that try for the same lock would keep each other from their work. */
async function inTurn<T>(file: string, call: Call, work: () => Promise<T>): Promise<T> {
  const before = turns.get(file)
  const { promise: isOver, resolve: end } = Promise.withResolvers<void>()
  const turn = before ? before.then(() => isOver) : isOver
  turns.set(file, turn)
  try {
    if (before) await unlessGivenUp(before, call)
    return await work()
  } finally {
    end()
    if (turns.get(file) === turn) turns.delete(file)
  }
}

/** Drafts and remains of this name, which a worker that was killed has left. */
export async function leftoversOf(folder: string, prefix: string): Promise<string[]> {
  const names = await readdir(folder)
  return names.filter((name) => name.startsWith(`${prefix}~`)).map((name) => path.join(folder, name))
}
