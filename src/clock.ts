/**
 * Where *now* comes from. In production that is the database, so that skew between hosts cannot matter; a test holds time
 * still, or moves it. `db/now.ts` turns this into SQL.
 */
export type Clock = {
  /** The instant that time stands still at, or undefined when time runs. */
  stoppedAt(): Date | undefined
}

export const runningClock: Clock = { stoppedAt: () => undefined }
