import type { Call, Sighting } from '../backend.ts'
import type { Account } from './account.ts'
import { findInstance } from './instance.ts'
import { pauseRef } from './pausing.ts'

/** One that is being paused is shown as paused, and one that is being copied as running: E2B tells no more. */
export async function lookAt(account: Account, ref: string, call: Call): Promise<Sighting> {
  const instance = await findInstance(account, ref, call)
  if (!instance) return { is: 'absent' }
  const { isRunning, incarnation, endsAt } = instance
  if (isRunning) return { is: 'running', incarnation, endsAt }
  return { is: 'suspended', checkpointRef: pauseRef(instance) }
}
