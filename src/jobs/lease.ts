/** A time-to-live that is off by less than this is as it was asked for: clocks differ, and calls take time. */
export const LEASE_SLACK_MS = 60_000

const LEASE_MS_MIN = 60_000

/** Of its hard limit, what is left: that does not begin anew with every waking. Never so little that it could not be used. */
export function leaseMs(usualMs: number, createdAt: Date, hardMs: number | undefined): number {
  return hardMs === undefined ? usualMs : Math.max(LEASE_MS_MIN, createdAt.getTime() + hardMs - Date.now())
}
