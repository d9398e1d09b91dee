import type { Clock } from '../../src/clock.ts'

/** Time stands still, and moves when it is told to. */
export function stoppedClock(start: string): Clock & { advance(ms: number): void } {
  let now = new Date(start)
  return {
    stoppedAt: () => now,
    advance(ms) {
      now = new Date(now.getTime() + ms)
    },
  }
}
