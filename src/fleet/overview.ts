import type { FailureType } from '../sandbox/failures.ts'
import type { FindingKind } from '../sandbox/findings.ts'
import type { Kind } from '../sandbox/judge.ts'
import type { State } from '../sandbox/states.ts'
import type { Health } from './health.ts'
import type { Sweep } from './sweep.ts'
import type { OperationError } from './views.ts'

/** A fleet at a glance: what there is, what is wrong with it, and how it has gone lately. Read at most once in a few seconds, for all who ask. */
export type Overview = {
  at: Date
  health: Health
  /** Every sandbox that is not gone. */
  counts: { state: State; backend: string; count: number; oldestSince: Date }[]
  /** Operations that have been worked on, or waited for, longer than any should be. The longest first. */
  stuck: Stuck[]
  /** Sandboxes that may be lost soon, and why. */
  atRisk: AtRisk[]
  /** The latest operations that have failed. */
  failing: Failing[]
  /** Of the last 24 hours. */
  resumes: {
    succeeded: number
    failed: { errorType: FailureType; count: number }[]
    p50Ms: number | null
    p95Ms: number | null
  }
  /** Null when they cannot be read. */
  queues: QueueGlance[] | null
  /** What the sweeper has found, in both directions: what we know and the provider has not, and the other way round. */
  orphans: { direction: 'missing_there' | 'unknown_here'; kind: FindingKind; open: number; endedLastDay: number }[]
  sweeps: Sweep[]
  trends: Trend[]
}

export type Stuck = {
  sandboxId: string
  backend: string
  state: State
  operationId: string
  kind: Kind
  since: Date
  attempt: number
  lastError: OperationError | null
}

export type AtRisk = {
  sandboxId: string
  backend: string
  state: State
  why: 'expires_soon' | 'instance_missing' | 'checkpoint_missing'
  /** One sentence. */
  text: string
  at: Date
}

export type Failing = {
  operationId: string
  sandboxId: string
  backend: string
  kind: Kind
  error: OperationError
  at: Date
}

export type QueueGlance = {
  name: string
  waiting: number
  active: number
  delayed: number
  failed: number
  /** How long the first in line has waited; null when none waits. */
  oldestMs: number | null
}

/** Numbers over time, the oldest first, each of `everyMs`; the last is not over yet. */
export type Trend = { name: string; unit: 'count' | 'ms' | 'percent'; everyMs: number; values: (number | null)[] }
