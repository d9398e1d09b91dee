import type { ColumnType, Selectable } from 'kysely'

/** Never written by the code: the database fills it in. */
type SetByDatabase<T> = ColumnType<T, never, never>

/**
 * A canary proves that the way from a request to a worker is open: a row here, a job that points to it, and a worker that
 * signs the row. `sandman dev` sends one before it says that it is ready, `sandman doctor` whenever it is asked.
 */
export type CanariesTable = {
  id: SetByDatabase<string>
  fleet: string
  sent_at: ColumnType<Date, Date | undefined, never>
  answered_at: ColumnType<Date | null, never, Date>
  answered_by: ColumnType<string | null, never, string>
}

export type CanaryRow = Selectable<CanariesTable>

/** The tables of the schema `sandman`. `docs/schema.txt` is their picture, printed from a migrated database. */
export type Database = {
  canaries: CanariesTable
}

export const SCHEMA = 'sandman'
