export const OPERATION_STATUSES = ['waiting', 'active', 'succeeded', 'failed', 'refused'] as const
export type OperationStatus = (typeof OPERATION_STATUSES)[number]

/** What came of an operation that has succeeded. */
export const OPERATION_OUTCOMES = ['done', 'already_done', 'respawned'] as const
export type OperationOutcome = (typeof OPERATION_OUTCOMES)[number]
