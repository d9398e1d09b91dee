/**
 * What of a grace period is kept for the end of it, in this order: each step gets as much as healthy services need many times over,
 * and one that is away gets no more.
 */
const KEPT_MS = {
  /** What is still in flight goes back to its queue, which is one command a job; or is answered with what there is. */
  handingOver: 2_000,
  /** Notices to those who wait, and what was counted. */
  lastWords: 750,
  /** Connections are closed, and then cut. */
  closing: 750,
  /** The process itself has to end, too. */
  exit: 500,
} as const

export const HAND_OVER_MS = KEPT_MS.handingOver

/** Work in flight has to be over so long before the end of a grace period. */
export const ENDING_MS = Object.values(KEPT_MS).reduce<number>((sum, ms) => sum + ms, 0)

/** How long the last spans may take to be sent, when there are traces. That comes after all else, and out of the same grace period. */
const SPANS_MS = 1_500

/** The same where there are traces. */
export const TRACED_ENDING_MS = ENDING_MS + SPANS_MS

type Step = keyof typeof KEPT_MS

/** A grace period that has begun. */
export type Grace = {
  /** For the work in flight. */
  workMs: number
  /** For a step of the ending, from now on: its share, or what those before it have left of that. */
  msFor(step: Step): number
}

/** Of a grace period that is shorter than what is kept of one, each step has its share. */
export function beginGrace(graceMs: number): Grace {
  const beganAtMs = performance.now()
  const scale = Math.min(1, graceMs / ENDING_MS)
  const steps = Object.keys(KEPT_MS) as Step[]
  return {
    workMs: Math.max(0, graceMs - ENDING_MS),
    msFor(step) {
      const after = steps.slice(steps.indexOf(step) + 1).reduce((sum, later) => sum + KEPT_MS[later] * scale, 0)
      const leftMs = beganAtMs + graceMs - after - performance.now()
      return Math.max(0, Math.min(KEPT_MS[step] * scale, leftMs))
    },
  }
}

export function spansMsOf(graceMs: number): number {
  return SPANS_MS * Math.min(1, graceMs / TRACED_ENDING_MS)
}
