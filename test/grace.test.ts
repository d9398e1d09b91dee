import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { beginGrace, ENDING_MS, spansMsOf, TRACED_ENDING_MS } from '../src/grace.ts'

const STEPS = ['handingOver', 'lastWords', 'closing', 'exit'] as const

// Shares are counted down by the clock, so it has to stand still between two of them.
beforeEach(() => void vi.useFakeTimers({ toFake: ['performance'] }))
afterEach(() => void vi.useRealTimers())

test.each([0, 1_000, ENDING_MS, TRACED_ENDING_MS, 25_000])(
  'of a grace period of %d ms no step has more than its share, and all of them together have all of it',
  (graceMs) => {
    const spansMs = spansMsOf(graceMs)
    const { workMs, msFor } = beginGrace(graceMs - spansMs)
    const shares = STEPS.map((step) => msFor(step))
    expect([workMs, ...shares, spansMs].reduce((sum, ms) => sum + ms)).toBeCloseTo(graceMs)
    expect([workMs === 0, Math.max(...shares) <= 2_000]).toEqual([graceMs <= TRACED_ENDING_MS, true])
  },
)
