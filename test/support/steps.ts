import type { Event } from '../../src/events.ts'

/** The name of the step that an operation's job has just finished, when this event tells of one. */
export function stepOf({ name, fields }: Event, operationId: string): string | undefined {
  if (fields.operationId !== operationId) return undefined
  if (name === 'operation.taken' || name === 'operation.settled') return name
  return name === 'provider.answered' ? String(fields.call) : undefined
}
