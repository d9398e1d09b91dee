import type { SandboxCreateOptions } from '@agentuity/server'
import { BackendError, type Wanted } from '../backend.ts'
import { isPause } from './pauses.ts'

/** Agentuity lets these be reached from outside. */
const PORT_MIN = 1_024

/** A template that is a snapshot, and no runtime: by its id, or by its name and tag. */
const SNAPSHOT = 'snapshot:'

const MEBI = 1 << 20

/** Longer than anybody leaves a sandbox alone that is to be used again. */
const IDLE_MS_MAX = 24 * 3_600_000

export function requirePossible({ spec, checkpointRef }: Wanted): void {
  const { previewPort } = spec.wake ?? {}
  if (spec.readOnlyRoot) throw impossible('`readOnlyRoot` is nothing that can be asked for')
  if (previewPort !== undefined && previewPort < PORT_MIN)
    throw impossible(`port ${previewPort} is not reached from outside; those from ${PORT_MIN} on are`)
  if (checkpointRef !== undefined && isPause(checkpointRef))
    throw impossible(`${checkpointRef} is a pause, and only a snapshot can be what another sandbox begins as`)
}

function impossible(why: string): BackendError {
  return new BackendError('spec_invalid', `At Agentuity ${why}`)
}

/** All but the labels. */
export function optionsOf({ spec, checkpointRef, ttlMs }: Wanted): SandboxCreateOptions {
  const { template, limits = {}, agent, wake } = spec
  const resources = {
    ...(limits.memoryBytesMax !== undefined && { memory: `${Math.ceil(limits.memoryBytesMax / MEBI)}Mi` }),
    ...(limits.cpusMax !== undefined && { cpu: `${Math.ceil(limits.cpusMax * 1_000)}m` }),
  }
  const snapshot = checkpointRef ?? (template?.startsWith(SNAPSHOT) ? template.slice(SNAPSHOT.length) : undefined)
  return {
    // What it begins as has its own runtime.
    ...(snapshot !== undefined ? { snapshot } : template !== undefined && { runtime: template }),
    ...(Object.keys(resources).length > 0 && { resources }),
    ...(agent?.env && { env: agent.env }),
    network: { enabled: true, ...(wake?.previewPort !== undefined && { port: wake.previewPort }) },
    // Outputs are bytes: nobody else is to write into them.
    stream: { timestamps: false },
    // When nobody has used it for so long, it sleeps. And what sleeps is ended by Sandman, or by nobody.
    timeout: { idle: `${Math.max(1, Math.ceil(Math.min(ttlMs, IDLE_MS_MAX) / 1_000))}s`, paused: '0s' },
  }
}
