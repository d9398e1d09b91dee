import type { CheckpointRow, SandboxRow } from './schema.ts'

export type Json = Record<string, unknown>

/**
 * Several rows of different tables come back from one statement as JSON, to save a round trip. There, times are text: this
 * makes them times again, in place. By the schema's rule, a column is a time when its name ends in `_at`.
 */
export function fromJson<Row>(json: Json): Row {
  for (const column of Object.keys(json)) {
    const value = json[column]
    if (typeof value === 'string' && column.endsWith('_at')) json[column] = new Date(value)
  }
  return json as Row
}

/** A sandbox with what it can be resumed from. */
export type FoundSandbox = { sandbox: SandboxRow; checkpoint: CheckpointRow | undefined }

/** The same, as a statement brings it that joins the two. */
export type JoinedSandbox = { sandbox: Json; checkpoint: Json | null }

export function sandboxFromJson({ sandbox, checkpoint }: JoinedSandbox): FoundSandbox {
  return {
    sandbox: fromJson<SandboxRow>(sandbox),
    checkpoint: checkpoint ? fromJson<CheckpointRow>(checkpoint) : undefined,
  }
}
