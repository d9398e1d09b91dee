import type { ListedCheckpoint, Listing } from '../backends/backend.ts'
import { recordFirstLooks, type Suspicion } from '../db/findings.ts'
import type { SweepPhase } from '../db/schema.ts'
import {
  beginRound,
  type Compared,
  compareRows,
  endRound,
  enterPhase,
  findUnownedCheckpoints,
  findUnownedInstances,
  forgetPlaces,
  forgetSightings,
  hasSandboxes,
  recordCompared,
  recordFailing,
  recordPage,
  recordStopped,
} from '../db/sweeps.ts'
import { forEach } from '../each.ts'
import { suddenLoss, suddenStrangers } from '../sandbox/findings.ts'
import { whyMissing } from './look.ts'
import { lookOnce, ProviderFails, type Tick } from './tick.ts'

/**
 * A round reads all that a provider has of this fleet, and then compares all sandboxes that rest with it. What does not fit is
 * only suspected: nothing is ended because of a list. Page for page, over as many ticks as it takes.
 */
export async function goRound(tick: Tick): Promise<void> {
  const { deps, hold } = tick
  if (tick.beginsRound) tick.row = await beginRound(deps.db, hold)
  while (tick.row.phase !== 'done' && tick.looksLeft > 0 && !tick.isOver()) await PHASES[tick.row.phase](tick)
}

const PHASES: Record<Exclude<SweepPhase, 'done'>, (tick: Tick) => Promise<void>> = {
  instances: listInstances,
  checkpoints: listCheckpoints,
  running: (tick) => compare(tick, 'running'),
  suspended: (tick) => compare(tick, 'suspended'),
}

async function listInstances(tick: Tick): Promise<void> {
  const { deps, backend, hold } = tick
  const { items, next } = await list(tick, (cursor, call) => backend.lists.instances(cursor, call))
  // Of what is only remains, the rows are looked at as if it were not there.
  const there = items.filter(({ isLost }) => !isLost)
  await record(tick, { kind: 'instance', items: there, next })
  const unowned = await findUnownedInstances(deps.db, hold, items)
  await suspect(
    tick,
    deps.housekeeping.graceMs,
    unowned.map(({ ref, sandboxId, why }) => ({
      ...about(tick, 'instance_unowned', ref, sandboxId),
      asked: `all instances of fleet ${hold.fleet}`,
      saw: `${ref} is there, and ${why}`,
    })),
  )
  if (next === undefined) await judge(tick)
}

/** A whole list was read: the provider works. Whether it may be believed depends on whose that is, and on what is missing. */
async function judge(tick: Tick): Promise<void> {
  const { deps, hold } = tick
  const { backend, place } = hold
  if (tick.row.failing_since !== null) {
    tick.row = await recordFailing(deps.db, hold, undefined)
    deps.events.emit('sweep.works_again', { backend, place })
  }
  const { instances: listed, strangers } = tick.row
  const hasOwn = strangers === 0 || (await hasSandboxes(deps.db, hold))
  if (await stops(tick, suddenStrangers({ listed, strangers, hasOwn }))) return
  tick.row = await enterPhase(deps.db, hold, tick.backend.lists.checkpoints === 'none' ? 'running' : 'checkpoints')
}

/** Stops the sweep of this place, unless somebody has said that it is true. */
async function stops(tick: Tick, because: string | undefined): Promise<boolean> {
  const { deps, hold, row } = tick
  if (because === undefined || tick.isBelieved) return false
  tick.row = await recordStopped(deps.db, hold, because)
  tick.row = await enterPhase(deps.db, hold, 'done')
  const { backend, place } = hold
  if (row.stopped_at === null) deps.events.emit('sweep.stopped', { backend, place, because })
  return true
}

async function listCheckpoints(tick: Tick): Promise<void> {
  const { deps, backend, hold } = tick
  const { checkpoints } = backend.lists
  const { items, next }: Listing<ListedCheckpoint> =
    checkpoints === 'none' ? { items: [], next: undefined } : await list(tick, checkpoints)
  await record(tick, { kind: 'checkpoint', items, next })
  const kinds = new Map(items.map(({ ref, kind }) => [ref, kind]))
  const { remainsMs, graceMs } = deps.housekeeping
  const { retentionMs } = deps.limits
  const unowned = await findUnownedCheckpoints(deps.db, hold, items, { retentionMs, remainsMs })
  await suspect(
    tick,
    graceMs,
    unowned.map(({ ref, sandboxId, why }) => ({
      ...about(tick, 'checkpoint_unowned', ref, sandboxId),
      checkpoint: kinds.get(ref) as ListedCheckpoint['kind'],
      asked: `all checkpoints of fleet ${hold.fleet}`,
      saw: `${ref} is there, and ${why}`,
    })),
  )
  if (next === undefined) tick.row = await enterPhase(deps.db, hold, 'running')
}

async function list<T>(
  { providerFor, row }: Tick,
  ask: (cursor: string | undefined, call: { signal: AbortSignal }) => Promise<Listing<T>>,
): Promise<Listing<T>> {
  const cursor = row.cursor ?? undefined
  return providerFor('everything').ask('list', (call) => ask(cursor, call))
}

async function record(tick: Tick, page: Parameters<typeof recordPage>[3]): Promise<void> {
  const { row, isNew } = await recordPage(tick.deps.db, tick.hold, tick.row, page)
  tick.row = row
  if (!isNew && page.next !== undefined) throw new ProviderFails('its list does not come to an end: a page came again')
}

async function compare(tick: Tick, state: 'running' | 'suspended'): Promise<void> {
  const { deps, backend, hold, place } = tick
  const { compareBatch: max, lookBatch, looksApartMs } = deps.housekeeping
  const { pausing, lists } = backend
  const rests = pausing !== 'none' && pausing.needsCheckpoint && lists.checkpoints !== 'none'
  // Where instance and checkpoint are one, the list of instances has shown both.
  const asked = { state, checkpoints: rests && !pausing.consumesCheckpoint, max }
  const { compared, last } = await compareRows(deps.db, hold, tick.row, asked)
  // What another machine has is in its lists, and not in these.
  const here = compared.filter(({ ref, checkpointRef, lacks }) =>
    place.holds(lacks === 'checkpoint' ? (checkpointRef as string) : ref),
  )
  const candidates = here.filter(({ lacks, isSuspected }) => lacks !== null && !isSuspected)
  const looked: Compared[] = []
  const seen: Suspicion[] = []
  while (looked.length < candidates.length && tick.looksLeft > 0 && (looked.length === 0 || !tick.isOver())) {
    const some = candidates.slice(looked.length, looked.length + Math.min(lookBatch, tick.looksLeft))
    await forEach(some, async (row) => {
      const suspicion = row.lacks === 'instance' ? await lookFor(tick, row) : await lookForCheckpoint(tick, row)
      if (suspicion) seen.push(suspicion)
    })
    looked.push(...some)
  }
  await suspect(tick, looksApartMs, seen)
  // The next tick, or the next page, begins behind the last that was looked at.
  const reached = looked.length < candidates.length ? looked.at(-1)?.id : last
  const expected = here.filter(({ id, isExpected }) => isExpected && (reached === undefined || id <= reached))
  const suspected = new Set(seen.map(({ sandboxId }) => sandboxId))
  const missing = expected.filter(({ id, isSuspected }) => suspected.has(id) || isSuspected)
  const counts = { expected: expected.length, missing: missing.length }
  tick.row = await recordCompared(deps.db, hold, { reached, ...counts })
  if (reached !== undefined) return
  if (state === 'running') tick.row = await enterPhase(deps.db, hold, 'suspended')
  else await end(tick)
}

/** All was compared. What is missing of what was known says whether its provider is to be believed. */
async function end(tick: Tick): Promise<void> {
  const { deps, hold } = tick
  const { expected: known, missing: vanished, stopped_at } = tick.row
  if (await stops(tick, suddenLoss({ known, vanished }))) return
  const { backend, place, round, instances, checkpoints } = tick.row
  if (stopped_at !== null) {
    await recordStopped(deps.db, hold, undefined)
    deps.events.emit('sweep.goes_on', { backend, place })
  }
  await forgetSightings(deps.db, hold, tick.row)
  await forgetPlaces(deps.db, hold, deps.housekeeping.forgetPlaceMs)
  tick.row = await endRound(deps.db, hold)
  deps.events.emit('sweep.round_ended', { backend, place, round, instances, checkpoints })
}

/** By its ref, because a list may lag, and leaves out what is on its way. */
async function lookFor(tick: Tick, { id, ref, state }: Compared): Promise<Suspicion | undefined> {
  const seen = await lookOnce(tick, ref, () => tick.providerFor(id).ask('look', (call) => tick.backend.look(ref, call)))
  const saw = seen && whyMissing(seen)
  if (saw === undefined) return undefined
  return {
    ...about(tick, 'instance_missing', ref, id),
    asked: `${ref}, which no list of round ${tick.row.round} shows`,
    saw: `${saw}, and sandbox ${id} is ${state}`,
  }
}

async function lookForCheckpoint(tick: Tick, { id, checkpointRef }: Compared): Promise<Suspicion | undefined> {
  const ref = checkpointRef as string
  const { pausing } = tick.backend
  if (pausing === 'none') return undefined
  const seen = await lookOnce(tick, ref, () => tick.providerFor(id).ask('verify', (call) => pausing.verify(ref, call)))
  if (seen?.is !== 'missing' && seen?.is !== 'corrupt') return undefined
  return {
    ...about(tick, 'checkpoint_missing', ref, id),
    asked: `checkpoint ${ref}, which no list of round ${tick.row.round} shows`,
    saw: `it is ${seen.is}: ${seen.why}`,
  }
}

function about({ hold }: Tick, kind: Suspicion['kind'], ref: string, sandboxId: string) {
  const { fleet, backend, place } = hold
  return { fleet, backend, place, kind, ref, sandboxId }
}

export async function suspect(
  { deps, hold }: Pick<Tick, 'deps' | 'hold'>,
  againMs: number,
  suspicions: readonly Suspicion[],
): Promise<void> {
  const found = await recordFirstLooks(deps.db, suspicions, { againMs, clock: deps.clock })
  if (found.length === 0) return
  const some = suspicions.slice(0, 10).map(({ kind, ref }) => `${kind} ${ref}`)
  deps.events.emit('sweep.suspects', { backend: hold.backend, place: hold.place, found: countBy(found), some })
}

function countBy(words: readonly string[]): Record<string, number> {
  return Object.fromEntries([...Map.groupBy(words, (word) => word)].map(([word, same]) => [word, same.length]))
}
