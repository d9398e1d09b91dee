import { BackendError } from '../backend.ts'
import { isFolderName } from '../folder-name.ts'

/** The parts that a sandbox may have without a key: its own agent, what runs beside that, and commands. */
export const PARTS = ['agent', 'sidecar', 'command'] as const

/** The part of the sandbox that an agent is. A key names a folder, and so it has to be a name, and not that of another part. */
export function partOf(key: string | undefined): string {
  if (key === undefined) return 'agent'
  if (isFolderName(key) && !PARTS.some((part) => part === key)) return key
  throw new BackendError('spec_invalid', `${JSON.stringify(key)} cannot be the key of an agent`)
}
