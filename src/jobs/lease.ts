/** A time-to-live that is off by less than this is as it was asked for: clocks differ, and calls take time. */
export const LEASE_SLACK_MS = 60_000

const LEASE_MS_MIN = 60_000

/** What is left of the hard limit, which does not begin anew with a waking; never less than a minute, or it could not be used. */
export function leaseMs(usualMs: number, createdAt: Date, hardMs: number | undefined): number {
  return hardMs === undefined ? usualMs : Math.max(LEASE_MS_MIN, createdAt.getTime() + hardMs - Date.now())
}
