import type { Abilities } from './cloud.ts'

const USUAL = {
  preserves: 'memory',
  needsCheckpoint: true,
  isShownEarly: false,
  canSnapshot: true,
  tellsLast: true,
} as const

/** Backends as different as the real ones are. */
export const BACKENDS: readonly Abilities[] = [
  // Every pause leaves a checkpoint of its own, and at the end of its time an instance is gone.
  { ...USUAL, name: 'named', pausing: 'named', lease: 'ends' },
  // Instance and checkpoint are one, it is shown asleep before it is, and at the end of its time it falls asleep.
  {
    ...USUAL,
    name: 'early',
    pausing: 'one',
    isShownEarly: true,
    canSnapshot: false,
    lease: 'sleeps',
    tellsLast: false,
  },
  // Only its files survive a pause, and it can be woken whatever became of the checkpoint.
  { ...USUAL, name: 'files', pausing: 'named', preserves: 'disk', needsCheckpoint: false, lease: 'none' },
  // It can neither pause nor copy.
  { ...USUAL, name: 'plain', pausing: 'none', canSnapshot: false, lease: 'ends', tellsLast: false },
]
