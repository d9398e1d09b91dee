/** What went wrong, as a word that code can switch on. The message is for people, and says what to do next. */
export const ERROR_CODES = [
  'config_invalid',
  'data_folder_in_use',
  'data_folder_unusable',
  'database_unreachable',
  'database_not_migrated',
  'deadline_exceeded',
  'embedded_postgres_failed',
  'embedded_postgres_missing',
  'idempotency_key_reused',
  'payload_invalid',
  'port_taken',
  'queue_unreachable',
  'sandbox_not_found',
] as const

export type ErrorCode = (typeof ERROR_CODES)[number]

/** An expected failure. Anything else that is thrown is a bug, and is shown with its stack. */
export class SandmanError extends Error {
  readonly code: ErrorCode
  /** Ids and numbers, ready for a log line; never a secret. */
  readonly details: Readonly<Record<string, unknown>>

  constructor(code: ErrorCode, message: string, options: { details?: Record<string, unknown>; cause?: unknown } = {}) {
    super(message, options.cause === undefined ? undefined : { cause: options.cause })
    this.name = 'SandmanError'
    this.code = code
    this.details = options.details ?? {}
  }
}

export function isSandmanError(error: unknown, code?: ErrorCode): error is SandmanError {
  return error instanceof SandmanError && (code === undefined || error.code === code)
}

/** The message of anything that was thrown, with the messages of its causes, on one line. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // A refused connection to a name with several addresses is an AggregateError without a message of its own.
  const own =
    error.message || (error instanceof AggregateError ? error.errors.map(describeError).join('; ') : error.name)
  return error.cause === undefined ? own : `${own}: ${describeError(error.cause)}`
}
