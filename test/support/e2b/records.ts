import { createHash, randomInt } from 'node:crypto'
import type { Vm } from './vm.ts'

/** What it was asked to be. It stays so through every pause. */
export type Settings = {
  templateId: string
  alias: string | undefined
  metadata: Record<string, string>
  envs: Record<string, string>
  autoPause: boolean
  autoPauseMemory: boolean
  autoResume: boolean
}

/** A sandbox that has a machine. While something is done to it, its state says what, and all else waits for `transition`. */
export type Live = {
  id: string
  settings: Settings
  state: 'running' | 'pausing' | 'killing' | 'snapshotting'
  startedAtMs: number
  endAtMs: number
  vm: Vm
  transition: Promise<void> | undefined
}

/**
 * What a pause has left. It stays when the sandbox is resumed, and is replaced by the next pause: a sandbox that then dies of its
 * time-to-live shows as paused again, with these files. A real one would also have the memory of that time; here that is only there
 * as long as the processes stand still, in `vm`.
 */
export type Paused = {
  id: string
  settings: Settings
  startedAtMs: number
  pausedAtMs: number
  files: string
  vm: Vm | undefined
  /** It is said to be kept, and is not. */
  isDoomed: boolean
}

/** A copy that others can be made from. */
export type Snapshot = {
  id: string
  templateId: string
  names: string[]
  of: string
  createdAtMs: number
  files: string
}

/** As it is listed, by the names that the API has. */
export type Listed = {
  sandboxID: string
  templateID: string
  clientID: string
  alias?: string
  startedAt: string
  endAt: string
  state: 'running' | 'paused'
  cpuCount: number
  memoryMB: number
  diskSizeMB: number
  envdVersion: string
  metadata?: Record<string, string>
}

/** The same for all, since there are no clients any more. */
const CLIENT_ID = '6532622b'
const ENVD_VERSION = '0.6.13'
const MACHINE = { cpuCount: 2, memoryMB: 512, diskSizeMB: 1024 }

const CHARACTERS = 'abcdefghijklmnopqrstuvwxyz0123456789'
const randomName = () => Array.from({ length: 20 }, () => CHARACTERS[randomInt(CHARACTERS.length)]).join('')
export const newSandboxId = () => `i${randomName()}`
export const newTemplateId = randomName

/** It depends on nothing but the id, so that it is the same after a pause. */
export const tokenOf = (id: string) => createHash('sha256').update(id).digest('hex').slice(0, 32)

export function asSandbox(id: string, { templateId, alias }: Settings) {
  return {
    sandboxID: id,
    templateID: templateId,
    clientID: CLIENT_ID,
    envdVersion: ENVD_VERSION,
    envdAccessToken: tokenOf(id),
    trafficAccessToken: null,
    domain: null,
    ...(alias !== undefined && { alias }),
  }
}

/** One that is being paused is shown as paused, and one that is being copied as running. */
export function asListed(record: Live | Paused): Listed {
  const { id, settings, startedAtMs } = record
  const isLive = 'state' in record
  return {
    sandboxID: id,
    templateID: settings.templateId,
    clientID: CLIENT_ID,
    ...(settings.alias !== undefined && { alias: settings.alias }),
    startedAt: new Date(startedAtMs).toISOString(),
    endAt: new Date(isLive ? record.endAtMs : record.pausedAtMs).toISOString(),
    state: isLive && record.state !== 'pausing' ? 'running' : 'paused',
    ...MACHINE,
    envdVersion: ENVD_VERSION,
    metadata: settings.metadata,
  }
}

export function asDetail(record: Live | Paused) {
  const { id, settings } = record
  return {
    ...asListed(record),
    envdAccessToken: tokenOf(id),
    domain: null,
    lifecycle: { onTimeout: settings.autoPause ? 'pause' : 'kill', autoResume: settings.autoResume },
  }
}
