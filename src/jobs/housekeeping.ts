/**
 * How long the reaper and the sweeper go on, how much they do at a time, and how sure they have to be. How often they tick stands with
 * their queues, when a row comes up again in `db/bell-times.ts`, and what one statement of theirs may delete with it; what they do with a
 * provider has the deadlines of `patience.ts`.
 */
export const HOUSEKEEPING = {
  /** A tick begins nothing more after this; the next one goes on where it stopped. */
  tickMs: 20_000,
  /** A sweep that somebody has asked for goes on until its round is over, but for no longer than this. */
  askedSweepMs: 600_000,

  /** Sandboxes that the reaper claims in one statement. */
  reapBatch: 100,
  /** A sandbox that the reaper has asked something of is left alone for so long, whatever came of it. */
  reapAgainMs: 300_000,
  /** Sandboxes that it claims to renew their time at a provider: no more than can be asked about soon. */
  renewBatch: 16,
  /** How long after its hard deadline an execution is ended that nobody has ended. Whoever follows one needs a minute at most. */
  deadlineMs: 120_000,

  /** A round of lists and comparisons begins so long after the one before it began. */
  roundMs: 300_000,
  /** Sandboxes that are compared with the lists in one statement. */
  compareBatch: 1_000,
  /** Single looks at a provider in one tick, and between two looks at the clock. */
  looksMax: 500,
  lookBatch: 16,
  /** After so many of them have failed in a row the provider is failing, and nothing more is concluded. */
  failuresMax: 3,

  /** Between the first look at something that is missing and the second, which decides. */
  looksApartMs: 60_000,
  /** The same for what nobody owns: whoever made it may be about to say so. */
  graceMs: 600_000,
  /** A look that brought no answer is repeated after this. */
  lookAgainMs: 60_000,
  /** Findings that are looked at again in one go. */
  findingBatch: 100,
  /** As many looks as are kept of one: what cannot be done may be tried for weeks. */
  looksKept: 10,
  /** Young checkpoints that are looked at again in one tick. To look at one may mean to read all of it. */
  verifyBatch: 50,
  /** Those that are due are read so many at a time, because some may be on other machines, and so often in one tick. */
  youngBatch: 500,
  youngPages: 20,
  /** What is left of a sandbox that is gone, and was promised to nobody, is kept for so long if no retention is set. */
  remainsMs: 30 * 86_400_000,

  /** An operation that nobody has begun to work on for so long, which is longer than any attempt, is worked on by the sweeper itself. */
  overdueMs: 1_800_000,
  overdueBatch: 20,
  /** And for no longer than this at a time. */
  performMs: 240_000,

  /** Sandboxes that are checked in one statement for what must always be true, and how long a tick goes on with it. */
  checkBatch: 50,
  checkMs: 1_000,

  /** How long a place stays with a worker that is not heard of. */
  holdMs: 60_000,
  /** While another worker has the place, who was asked for a whole round waits for so long before it tries again. */
  heldMs: 500,
  /** A place that nobody has swept for so long is forgotten: a machine that is gone, an account that is not used. */
  forgetPlaceMs: 7 * 86_400_000,
  pruneBatch: 1_000,
}

export type Housekeeping = typeof HOUSEKEEPING
