import { randomBytes } from 'node:crypto'
import type { Machine, Started } from './machine.ts'

export type Status = 'creating' | 'idle' | 'running' | 'stopping' | 'suspended' | 'terminated' | 'failed'

export type SandboxEvent = { eventId: string; sandboxId: string; type: string; event: object; createdAt: string }
type DiskCheckpoint = { id: string; name: string; createdAt: string; parent: string }
export type Snapshot = { id: string; name: string; of: string; createdAt: string; sizeBytes: number; files: string }

/** What was asked for when it was made. */
export type Settings = {
  name?: string
  description?: string
  metadata?: Record<string, unknown>
  runtime?: string
  env?: Record<string, string>
  resources?: object
  network?: { enabled?: boolean; port?: number }
  timeout?: { idle?: string; execution?: string; paused?: string }
  snapshot?: string
}

export type Box = {
  id: string
  settings: Settings
  createdAt: string
  status: Status
  exitCode?: number
  machine: Machine
  events: SandboxEvent[]
  checkpoints: DiskCheckpoint[]
  /** What it can be resumed from. */
  saved: string | undefined
  /** Something is being done to it. */
  isChanging: boolean
  /** It is shown as idle, and nothing works in it. */
  isHollow: boolean
  /** Those that are still to be shown. */
  isListed: boolean
  executions: Started[]
}

export const newId = (prefix: string, bytes = 12) => `${prefix}_${randomBytes(bytes).toString('hex')}`

const ORG = { id: 'org_test', name: 'Test' }

/** As a list shows it. */
export function asListed({ id, settings, createdAt, status, executions }: Box, url: string) {
  const { name, description, network, timeout } = settings
  return {
    sandboxId: id,
    name,
    description,
    status,
    mode: 'interactive',
    createdAt,
    region: 'test',
    executions: executions.length,
    networkEnabled: network?.enabled ?? false,
    ...(network?.port !== undefined && { networkPort: network.port, url: `${url}/preview/${id}` }),
    org: ORG as typeof ORG | null,
    timeout,
  }
}

/** As it is shown by its id. */
export function asInfo(box: Box, url: string) {
  const { metadata, resources } = box.settings
  return { ...asListed(box, url), metadata, resources, ...(box.exitCode !== undefined && { exitCode: box.exitCode }) }
}

export function asJob({ id, command, startedAt, completedAt, exitCode }: Started, sandboxId: string, url: string) {
  return {
    jobId: id,
    sandboxId,
    command,
    status: completedAt === undefined ? 'running' : exitCode === 0 ? 'completed' : 'failed',
    exitCode: exitCode ?? null,
    startedAt,
    completedAt: completedAt ?? null,
    stdoutStreamUrl: `${url}/stream/${id}`,
    stderrStreamUrl: `${url}/stream/${id}`,
  }
}

export function asExecution(started: Started, sandboxId: string, url: string) {
  const { id, command, startedAt, completedAt, exitCode } = started
  return {
    executionId: id,
    sandboxId,
    type: 'exec',
    command,
    status: completedAt === undefined ? 'running' : exitCode === 0 ? 'completed' : 'failed',
    startedAt,
    ...(completedAt !== undefined && { completedAt, exitCode }),
    stdoutStreamUrl: `${url}/stream/${id}`,
    stderrStreamUrl: `${url}/stream/${id}`,
  }
}

export function asSnapshot({ id, name, createdAt, sizeBytes }: Snapshot) {
  return { snapshotId: id, name, tag: 'latest', sizeBytes, fileCount: 1, createdAt, public: false }
}
