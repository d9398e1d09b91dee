import { BackendError, type Owner } from '../backend.ts'
import { hash } from '../hash.ts'

/**
 * What things are called at the engine.
 *
 * A sandbox has one name for all of its life, its ref, which its labels carry. Its container has a name besides, which changes:
 * that is the only thing of a container that can be changed at any time, by one call, and for everybody to see. It says which
 * waking the container has seen last, and which pause it was put to sleep by. And since a call may name a container by it, a
 * call that was meant for another state of things finds nothing of that name, and does nothing.
 */
export type Home = {
  fleet: string
  /** Which engine it is. Part of every ref, so that nobody says of another machine's sandbox that there is no such thing. */
  engine: string
}

export type SleepMode = 'freeze' | 'disk' | 'checkpoint'
type Sleep = {
  mode: SleepMode
  key: string
  /** When the container was started that was put to sleep. One that has been started since then does not sleep. */
  startedAt: string
}
export type ContainerName = { base: string; wokenBy?: string | undefined; sleep?: Sleep | undefined }

const CONTAINER_NAME =
  /^(?<base>.+?)(?:\.r-(?<wokenBy>[\w-]+))?(?:\.(?<mode>freeze|disk|checkpoint)-(?<key>[\w-]+)\.(?<startedAt>\w+))?$/

export function parseContainerName(name: string): ContainerName {
  const { base = name, wokenBy, mode, key = '', startedAt = '' } = CONTAINER_NAME.exec(name)?.groups ?? {}
  return { base, wokenBy, sleep: mode ? { mode: mode as SleepMode, key, startedAt } : undefined }
}

export function containerName({ base, wokenBy, sleep }: ContainerName): string {
  const woken = wokenBy === undefined ? '' : `.r-${wokenBy}`
  return `${base}${woken}${sleep ? `.${sleep.mode}-${sleep.key}.${sleep.startedAt}` : ''}`
}

/** A moment as the engine tells it, in letters that a name may have. */
export function inLetters(moment: string): string {
  return moment.replace(/\W/g, '')
}

const WORD = /^[A-Za-z0-9_-]{1,32}$/

/** A key as part of a name: as it is, or, where that is not possible, something that no other key has. */
export function wordOf(key: string): string {
  return WORD.test(key) ? key : `x${hash(key, 31)}`
}

/** The same for the same life, so that an instance is made once however often it is asked for. */
export function refOf({ fleet, engine }: Home, { life }: Owner): string {
  return `sandman-${engine}-${fleet}-${wordOf(life)}`
}

/** One that somebody else has made is known by the whole of its id: a name could be given to another one. */
const CONTAINER_ID = /^[0-9a-f]{64}$/
const REF = /^sandman-(?<engine>[0-9a-f]{8})-/

export function isContainerId(ref: string): boolean {
  return CONTAINER_ID.test(ref)
}

/** Whether another engine has named it. */
export function isElsewhere({ engine }: Home, ref: string): boolean {
  const named = REF.exec(ref)?.groups?.engine
  return named !== undefined && named !== engine
}

/** Whether there can be something of this name here. What another engine has named is somewhere, and nobody here can see it. */
export function isOurs(home: Home, ref: string): boolean {
  if (isElsewhere(home, ref))
    throw new BackendError(
      'sandbox_unreachable',
      `${ref} is on another Docker engine than this worker's (${home.engine}): all workers of a fleet have the same one.`,
    )
  return ref.startsWith(prefixOf(home))
}

const prefixOf = ({ fleet, engine }: Home) => `sandman-${engine}-${fleet}-`

type CheckpointKind = SleepMode | 'snapshot'
export type CheckpointName = { ref: string; kind: CheckpointKind; key: string }

const CHECKPOINT = /^(?<ref>.+)\.(?<kind>freeze|disk|checkpoint|snapshot)-(?<key>[\w-]+)$/

export function checkpointRefOf({ ref, kind, key }: CheckpointName): string {
  return `${ref}.${kind}-${wordOf(key)}`
}

/** Undefined of what this backend cannot have named. */
export function parseCheckpointRef(text: string): CheckpointName | undefined {
  const { ref, kind, key } = CHECKPOINT.exec(text)?.groups ?? {}
  return ref === undefined || key === undefined ? undefined : { ref, kind: kind as CheckpointKind, key }
}

/** The image that a snapshot is. */
export function snapshotImage(home: Home, { ref, key }: CheckpointName): string {
  return imageOf(home, ref, `snapshot-${wordOf(key)}`)
}

/** The image that a sandbox sleeps as; and one that is written to see whether it can be. */
export const asleepImage = (home: Home, ref: string) => imageOf(home, ref, 'asleep')
export const trialImage = (home: Home, ref: string) => imageOf(home, ref, 'trial')

function imageOf(home: Home, ref: string, what: string): string {
  // A tag has 128 letters, and half of an id is still nobody else's.
  const whose = isContainerId(ref) ? ref.slice(0, 32) : ref.slice(prefixOf(home).length)
  return `${repositoryOf(home)}:${home.fleet}.${whose}.${what}`
}

const repositoryOf = ({ engine }: Home) => `sandman/${engine}`
