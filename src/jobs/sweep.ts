import { randomUUID } from 'node:crypto'
import type { Backend, Place } from '../backends/backend.ts'
import { type Hold, LostHold, recordFailing, recordUnplaced, releaseSweep, renew, takeSweep } from '../db/sweeps.ts'
import { describeError, isSandmanError } from '../errors.ts'
import { done, type Outcome, snoozed, superseded } from '../queues/outcome.ts'
import type { SweeperPayload } from '../queues/sweeper.ts'
import { notMineMs } from './not-mine.ts'
import { PATIENCE } from './patience.ts'
import { backendErrorIn, Provider } from './provider.ts'
import { reconcile } from './reconcile.ts'
import { goRound } from './round.ts'
import { ProviderFails, type SweepDeps, type Tick } from './tick.ts'
import { lookAgain } from './verdict.ts'
import { verifyAgain } from './verify-again.ts'

/**
 * One tick of the sweeper, for one backend: operations that nobody works on, the next part of a round of lists and comparisons,
 * second looks at what was found, and young checkpoints.
 *
 * Delivered twice, or on two workers at once: one holds the place, the other leaves it.
 * Crashed: the place is free again within a minute, and the next tick goes on where this one stopped.
 * The provider fails, or shows far less than before: nothing is concluded, and nothing is ended, until it is well again.
 */
export async function sweep(
  deps: SweepDeps,
  { backend: name, act, asked }: SweeperPayload,
  { signal, madeAt }: { signal: AbortSignal; madeAt: Date },
): Promise<Outcome> {
  const { db, clock, fleet, worker, events, housekeeping } = deps
  const backend = deps.backends.get(name)
  if (!backend) return leave(deps, name, madeAt)
  const beganAtMs = performance.now()
  const forMs = asked ? housekeeping.askedSweepMs : housekeeping.tickMs
  const providerFor = (sandboxId: string) =>
    new Provider({
      backend: name,
      asker: { sweepOf: name },
      sandboxId,
      patience: deps.patience ?? PATIENCE,
      signal,
      events,
    })
  const place = await findPlace(deps, backend, providerFor('everything'), signal)
  signal.throwIfAborted()
  if (!place) return done() // nobody can say, which is written down; or there is nothing
  const takenBy = `${worker} ${randomUUID()}`
  const hold: Hold = { fleet, backend: name, place: place.name, takenBy, holdMs: housekeeping.holdMs, clock }
  const row = await takeSweep(db, hold, housekeeping)
  if (!row) {
    const why = `another worker sweeps ${name}`
    return asked ? snoozed(why, housekeeping.heldMs) : superseded(why)
  }
  const tick: Tick = {
    deps,
    backend,
    place,
    hold,
    row,
    signal,
    mayAct: act && deps.mayAct,
    beginsRound: asked || row.isDue,
    isBelieved: row.isBelieved,
    isOver: () => signal.aborted || performance.now() - beganAtMs >= forMs,
    looksLeft: asked ? Number.POSITIVE_INFINITY : housekeeping.looksMax,
    actsLeft: deps.destroyMax,
    failedInARow: 0,
    providerFor,
  }
  const renewing = setInterval(() => void renew(db, hold).catch(() => {}), housekeeping.holdMs / 3)
  // Beside the rest, which may not have to wait for an operation that takes its time.
  const reconciling = tick.mayAct ? reconcile(tick) : Promise.resolve()
  reconciling.catch(() => {})
  try {
    // What is as it should be again is dismissed before it is counted as missing.
    if (row.stopped_at !== null) await lookAgain(tick)
    await goRound(tick)
    await lookAgain(tick)
    await verifyAgain(tick)
    await reconciling
    return done()
  } catch (error) {
    if (error instanceof LostHold) return superseded(error.message)
    if (!isProviders(error)) throw error
    signal.throwIfAborted() // given up by its worker, and not by the provider
    await failing(tick, describeError(error))
    return done()
  } finally {
    await reconciling.catch(() => {})
    clearInterval(renewing)
    await releaseSweep(db, hold)
  }
}

/** Backends of this process that have not been able to say where they are, and that no row remembers, because nobody has ever swept them. */
const unplaced = new WeakSet<Backend>()

/** Undefined when nobody can say. */
async function findPlace(
  deps: SweepDeps,
  backend: Backend,
  provider: Provider,
  signal: AbortSignal,
): Promise<Place | undefined> {
  const { db, fleet, clock, events } = deps
  try {
    const place = await provider.ask('list', (call) => backend.lists.place(call))
    unplaced.delete(backend)
    return place
  } catch (error) {
    signal.throwIfAborted() // given up by its worker, and not by the provider
    const { name } = backend
    const failure = describeError(error)
    const places = await recordUnplaced(db, { fleet, backend: name, failure, clock })
    for (const { place, isNew } of places) if (isNew) events.emit('sweep.failing', { backend: name, place, failure })
    if (places.length === 0 && !unplaced.has(backend)) events.emit('sweep.failing', { backend: name, failure })
    unplaced.add(backend)
    return undefined
  }
}

/** Left to a worker that has the backend. When none has for a whole round, the schedule is taken away: one that comes makes it anew. */
async function leave({ housekeeping, endSweeps }: SweepDeps, name: string, madeAt: Date): Promise<Outcome> {
  const why = `this worker does not have backend ${name} (SANDMAN_BACKENDS)`
  const isStale = Date.now() - madeAt.getTime() > housekeeping.roundMs
  if (!isStale) return snoozed(why, notMineMs(madeAt))
  await endSweeps(name)
  return superseded(`no worker that has backend ${name} has taken it (SANDMAN_BACKENDS)`)
}

function isProviders(error: unknown): boolean {
  return (
    error instanceof ProviderFails || backendErrorIn(error) !== undefined || isSandmanError(error, 'deadline_exceeded')
  )
}

async function failing(tick: Tick, failure: string): Promise<void> {
  const { deps, hold, row } = tick
  tick.row = await recordFailing(deps.db, hold, failure)
  if (row.failing_since === null) {
    const { backend, place } = hold
    deps.events.emit('sweep.failing', { backend, place, failure })
  }
}
