import type { Live } from './records.ts'
import { ApiError } from './replies.ts'

export type Limits = {
  /** Longer than this nothing lives without a pause. */
  lifetimeMsMax: number
  /** So many may run at once. */
  sandboxesMax: number
  /** For so long envd tells how a process ended that has ended. */
  exitRetentionMs: number
}

/** A sandbox's end is set to a time, or only put off until then. */
export type Setting = 'to' | 'at least to'

const HOUR_MS = 3_600_000

export function checkTtl(ttlS: number, { lifetimeMsMax }: Limits): void {
  if (ttlS * 1_000 <= lifetimeMsMax) return
  throw new ApiError(400, `Timeout cannot be greater than ${lifetimeMsMax / HOUR_MS} hours`)
}

export function checkRoom(running: number, { sandboxesMax }: Limits): void {
  if (running < sandboxesMax) return
  throw new ApiError(429, `you have reached the maximum number of concurrent E2B sandboxes (${sandboxesMax})`)
}

/** No longer than it may live since it was started or resumed, whatever is asked for. */
export function keepAlive(live: Live, ttlS: number, how: Setting, nowMs: number, { lifetimeMsMax }: Limits): void {
  const latestMs = live.startedAtMs + lifetimeMsMax
  if (nowMs > latestMs) throw new ApiError(400, 'Max instance length exceeded')
  const endAtMs = Math.min(nowMs + ttlS * 1_000, latestMs)
  if (how === 'to' || endAtMs > live.endAtMs) live.endAtMs = endAtMs
}
