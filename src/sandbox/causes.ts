import type { FindingKind, Look } from './findings.ts'
import type { LimitName } from './limits.ts'

/** Why an operation was asked for, when it was not an app that did. Kept with the operation, for whoever asks why. */
export type Cause =
  | {
      by: 'reaper'
      limit: LimitName
      /** What the limit was counted from, how long it is, and whose it is. */
      since: string
      limit_ms: number
      of: 'sandbox' | 'fleet'
    }
  | { by: 'sweeper'; found: FindingKind; ref: string; looks: Look[] }
  | { by: 'execution'; execution_id: string }
  /** Its provider had put it to sleep when its time was over. */
  | { by: 'lease'; ends_at: string }
