/** What a checkpoint was made by. */
export const CHECKPOINT_KINDS = ['pause', 'snapshot'] as const
export type CheckpointKind = (typeof CHECKPOINT_KINDS)[number]

/** What is known of it at its provider. */
export const CHECKPOINT_STATUSES = ['ready', 'missing', 'deleted'] as const
export type CheckpointStatus = (typeof CHECKPOINT_STATUSES)[number]
