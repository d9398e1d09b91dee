/** Work that no worker has taken by now was not heard: the queue was away, or forgot. */
export const UNHEARD_MS = 10_000

/** Work that was taken and neither settled nor taken again by now is looked at again. Ringing early costs one look. */
export const UNSETTLED_MS = 60_000

/** How old a checkpoint is when it is looked at again: what was uploading when it was first seen has arrived by then, or has not. */
export const VERIFY_AGAIN_MS = [120_000, 3_600_000] as const
