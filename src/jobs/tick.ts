import type { Backend, Place } from '../backends/backend.ts'
import type { SweepRow } from '../db/schema.ts'
import type { Hold } from '../db/sweeps.ts'
import { describeError } from '../errors.ts'
import type { Limits } from '../sandbox/limits.ts'
import type { Housekeeping } from './housekeeping.ts'
import type { JobDeps } from './operation.ts'
import { isAway } from './probe.ts'
import type { Provider } from './provider.ts'

export type SweepDeps = JobDeps & {
  limits: Limits
  destroyMax: number
  /** False: what is found is written down, and nothing is done about it. */
  mayAct: boolean
  housekeeping: Housekeeping
  /** No tick comes any more for a backend that no worker has. */
  endSweeps(backend: string): Promise<void>
}

/** One worker's turn at one place. */
export type Tick = {
  deps: SweepDeps
  backend: Backend
  place: Place
  hold: Hold
  /** How far the sweep of this place is, as it was last written. */
  row: SweepRow
  /** A new round is begun by this tick. */
  beginsRound: boolean
  /** Somebody has said that whatever is shown is true. */
  isBelieved: boolean
  signal: AbortSignal
  mayAct: boolean
  isOver(): boolean
  /** Single looks that are left in this tick, and things that may be ended. */
  looksLeft: number
  actsLeft: number
  failedInARow: number
  providerFor(sandboxId: string): Provider
}

/** The provider, and not one sandbox of it, does not answer: nothing more is concluded now. */
export class ProviderFails extends Error {}

/**
 * A single look, of which a tick has only so many. Undefined when it brought no answer: that says nothing about its sandbox. After
 * several in a row the provider itself is asked.
 */
export async function lookOnce<T>(tick: Tick, what: string, look: () => Promise<T>): Promise<T | undefined> {
  const { deps, hold, signal } = tick
  tick.looksLeft--
  try {
    const seen = await look()
    tick.failedInARow = 0
    return seen
  } catch (error) {
    signal.throwIfAborted()
    deps.events.emit('sweep.unanswered', { backend: hold.backend, place: hold.place, what, error })
    if (++tick.failedInARow < deps.housekeeping.failuresMax) return undefined
    tick.failedInARow = 0
    if (!(await isAway(tick.backend, tick.providerFor('everything'), signal))) return undefined
    throw new ProviderFails(`neither single looks nor its list bring an answer; the last look: ${describeError(error)}`)
  }
}
