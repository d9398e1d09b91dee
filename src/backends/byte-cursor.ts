import { BackendError } from './backend.ts'

const CURSOR = /^\d{1,15}$/

/** The byte of an output that a cursor names, where outputs are files. */
export function positionOf(cursor: string | undefined): number {
  if (cursor === undefined) return 0
  if (CURSOR.test(cursor)) return Number(cursor)
  throw badCursor(JSON.stringify(cursor))
}

export function badCursor(what: string): BackendError {
  return new BackendError('spec_invalid', `No output was ever read up to ${what}`)
}
