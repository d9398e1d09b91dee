/** What a failed or refused operation says of itself, as a word that an app can switch on. */
export const FAILURES = {
  sandbox_unreachable: { retryable: true },
  sandbox_expired: { retryable: false },
  checkpoint_missing: { retryable: false },
  checkpoint_corrupt: { retryable: false },
  provider_unauthorized: { retryable: true },
  quota_exceeded: { retryable: true },
  rate_limited: { retryable: true },
  spec_invalid: { retryable: false },
  invalid_transition: { retryable: false },
  sandbox_gone: { retryable: false },
  pause_unsupported: { retryable: false },
  snapshot_unsupported: { retryable: false },
  internal: { retryable: true },
} as const satisfies Record<string, { retryable: boolean }>

export type FailureType = keyof typeof FAILURES

/** As it is stored with the operation and sent to apps. */
export type Failure = { error_type: FailureType; message: string; retryable: boolean; checkpoint_id?: string }

export function failure(type: FailureType, message: string, checkpointId?: string): Failure {
  const { retryable } = FAILURES[type]
  return { error_type: type, message, retryable, ...(checkpointId !== undefined && { checkpoint_id: checkpointId }) }
}
