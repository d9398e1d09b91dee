import { BackendError } from '../backend.ts'

/** The parts that a sandbox may have without a key: its own agent, what runs beside that, and commands. */
export const PARTS = ['agent', 'sidecar', 'command'] as const

/** One name in a folder, and none that is hidden: those are drafts. */
const NAME = /^[A-Za-z0-9_-][A-Za-z0-9_.-]{0,199}$/

/** The part of the sandbox that an agent is. A key names a folder, and so it has to be a name, and not that of another part. */
export function partOf(key: string | undefined): string {
  if (key === undefined) return 'agent'
  if (NAME.test(key) && !PARTS.some((part) => part === key)) return key
  throw new BackendError('spec_invalid', `${JSON.stringify(key)} cannot be the key of an agent`)
}
