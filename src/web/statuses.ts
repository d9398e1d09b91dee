import type { ContentfulStatusCode } from 'hono/utils/http-status'
import type { ErrorCode } from '../errors.ts'
import type { FailureType } from '../sandbox/failures.ts'

/** How long a client should wait before it asks again. */
export const RETRY_AFTER_SECONDS = 5

/** How an operation that failed or was refused is answered. */
export const FAILURE_STATUSES = {
  sandbox_unreachable: 503,
  sandbox_expired: 410,
  checkpoint_missing: 410,
  checkpoint_corrupt: 410,
  provider_unauthorized: 502,
  quota_exceeded: 503,
  rate_limited: 429,
  spec_invalid: 422,
  invalid_transition: 409,
  sandbox_gone: 410,
  pause_unsupported: 409,
  sandbox_busy: 409,
  sandbox_suspended: 409,
  snapshot_unsupported: 409,
  internal: 500,
} as const satisfies Record<FailureType, ContentfulStatusCode>

/** How a call is answered when the library throws. What only a process can meet while it starts is a bug here. */
export const ERROR_STATUSES = {
  backend_unknown: 422,
  config_invalid: 500,
  data_folder_in_use: 500,
  data_folder_unusable: 500,
  database_not_migrated: 503,
  database_unreachable: 503,
  deadline_exceeded: 503,
  embedded_postgres_failed: 500,
  embedded_postgres_missing: 500,
  execution_not_found: 404,
  execution_refused: 409,
  fleet_closed: 503,
  idempotency_key_reused: 409,
  operation_not_found: 404,
  package_missing: 500,
  payload_invalid: 500,
  port_taken: 500,
  process_not_started: 500,
  queue_unreachable: 503,
  request_invalid: 422,
  sandbox_not_found: 404,
} as const satisfies Record<ErrorCode, ContentfulStatusCode>
