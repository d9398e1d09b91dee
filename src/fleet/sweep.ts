import { setTimeout as sleep } from 'node:timers/promises'
import type { Clock } from '../clock.ts'
import { type Due, findDue } from '../db/due.ts'
import { listFindings } from '../db/findings.ts'
import { dbTime } from '../db/now.ts'
import type { Db } from '../db/pool.ts'
import { listBackends } from '../db/sandboxes.ts'
import type { FindingRow, SweepRow } from '../db/schema.ts'
import { believe, listSweeps } from '../db/sweeps.ts'
import { HOUSEKEEPING } from '../jobs/housekeeping.ts'
import type { Producer } from '../queues/bullmq/producer.ts'
import { sweeperQueue } from '../queues/sweeper.ts'
import { FINDINGS, type FindingKind, type Look } from '../sandbox/findings.ts'
import { LIMIT_NAMES, LIMITS, type LimitName, type Limits } from '../sandbox/limits.ts'

/** How the sweep of one place stands. */
export type Sweep = {
  backend: string
  /** Where its lists come from: an account, a cluster, a machine. */
  place: string
  round: number
  /** What the latest lists have shown. */
  instances: number
  checkpoints: number
  /** When everything was last compared once, and believed. */
  endedAt: Date | null
  /** When a worker was last there. */
  sweptAt: Date | null
  /** No worker has been there for so long that nobody can say how it stands: a machine that is gone, or a folder, or a key. */
  isUnswept: boolean
  /** Somebody has said that until then it may be believed, however much has vanished. */
  believedUntil: Date | null
  /** The provider does not answer: nothing is concluded, and nothing ended, until it does. */
  failing: { since: Date; message: string } | null
  /** What the provider shows is not believed: nothing is ended until it shows again what it should, or somebody says so. */
  stopped: { since: Date; because: string } | null
}

/** Something that is not as it should be, and what comes of it. */
export type Finding = {
  kind: FindingKind
  /** What it means, and what is done about such a thing. */
  what: string
  does: string
  backend: string
  place: string
  sandboxId: string
  ref: string
  /** Everything that was seen, where and when. */
  looks: Look[]
  /** When it was, or is to be, looked at again before anything is done; null once something was done. */
  lookAt: Date | null
  /** Seen twice, and the second look is over: the next tick that may act does what is done about it. */
  isCertain: boolean
  actedAt: Date | null
  operationId: string | null
}

/** A sandbox that has reached a limit, and what the reaper asks for. */
export type Overdue = {
  sandboxId: string
  backend: string
  limit: LimitName
  what: string
  does: 'pause' | 'destroy' | 'kill'
  since: Date
  limitMs: number
  of: 'sandbox' | 'fleet'
}

export type SweepReport = {
  at: Date
  sweeps: Sweep[]
  /** Backends that sandboxes are on, and that no worker has swept within the time. */
  unanswered: string[]
  findings: Finding[]
  overdue: Overdue[]
  /** There is more than a report holds. */
  isCut: boolean
}

/** Of each kind of thing that a report holds. */
export const ITEMS_MAX = 1_000
const LOOK_EVERY_MS = 200
/** Somebody who has looked says that what is shown is true: for so long. */
const BELIEF_MS = 3_600_000

type Deps = { db: Db; producer: Producer; fleet: string; clock: Clock; limits: Limits }
type Asked = {
  dryRun: boolean
  backend?: string | undefined
  believe: boolean
  wait: number
  signal?: AbortSignal | undefined
}

/**
 * Asks workers to look at everything now, and says what came of it. The workers do it because they are where the providers, and
 * the sandboxes of this machine, can be seen.
 */
export async function askToSweep(deps: Deps, { dryRun, backend, wait, signal, ...asked }: Asked): Promise<SweepReport> {
  const { db, producer, fleet, clock } = deps
  const backends = backend === undefined ? await listBackends(db, fleet) : [backend]
  if (asked.believe) for (const name of backends) await believe(db, { fleet, backend: name, forMs: BELIEF_MS, clock })
  const since = await dbTime(db, clock)
  for (const name of backends) await producer.ring(sweeperQueue, { backend: name, act: !dryRun, asked: true })
  const untilMs = performance.now() + wait
  const isOver = ({ began_at, ticked_at, phase }: SweepRow) =>
    phase === 'done' && ticked_at !== null && ticked_at >= since && began_at !== null && began_at >= since
  let unanswered = backends
  for (;;) {
    const sweeps = await listSweeps(db, fleet)
    unanswered = backends.filter((name) => !sweeps.some((sweep) => sweep.backend === name && isOver(sweep)))
    if (unanswered.length === 0 || performance.now() >= untilMs) break
    await sleep(LOOK_EVERY_MS, undefined, { signal }).catch(() => {})
    signal?.throwIfAborted()
  }
  return { ...(await report(deps, since)), unanswered }
}

/** What is open now, and what was done since then. */
async function report({ db, fleet, clock, limits }: Deps, since: Date): Promise<Omit<SweepReport, 'unanswered'>> {
  const at = await dbTime(db, clock)
  const findings = await listFindings(db, { fleet, actedSince: since, max: ITEMS_MAX })
  const overdue: Overdue[] = []
  for (const limit of LIMIT_NAMES)
    overdue.push(...(await findDue(db, { fleet, limit, limits, max: ITEMS_MAX, clock })).map(viewDue))
  return {
    at,
    sweeps: (await listSweeps(db, fleet)).map((row) => viewSweep(row, at)),
    findings: findings.map(viewFinding),
    overdue: overdue.slice(0, ITEMS_MAX),
    isCut: findings.length >= ITEMS_MAX || overdue.length >= ITEMS_MAX,
  }
}

/** After so many rounds without one, a place is swept by nobody. */
const UNSWEPT_ROUNDS = 3

export function viewSweep(row: SweepRow, at: Date): Sweep {
  const { backend, place, round, instances, checkpoints, ended_at: endedAt, ticked_at: sweptAt } = row
  const failing = row.failing_since && { since: row.failing_since, message: row.failure as string }
  const stopped = row.stopped_at && { since: row.stopped_at, because: row.stopped_because as string }
  const isUnswept = (sweptAt?.getTime() ?? 0) < at.getTime() - UNSWEPT_ROUNDS * HOUSEKEEPING.roundMs
  const believedUntil = row.believed_until && row.believed_until > at ? row.believed_until : null
  return { backend, place, round, instances, checkpoints, endedAt, sweptAt, isUnswept, believedUntil, failing, stopped }
}

/** Whether every place was swept, and believed. What was found there is another question. */
export function isWell({ sweeps, unanswered }: Pick<SweepReport, 'sweeps' | 'unanswered'>): boolean {
  return (
    unanswered.length === 0 && sweeps.every(({ failing, stopped, isUnswept }) => !failing && !stopped && !isUnswept)
  )
}

function viewFinding(row: FindingRow): Finding {
  const { kind, backend, place, ref, looks } = row
  return {
    kind,
    what: FINDINGS[kind].means,
    does: FINDINGS[kind].does,
    backend,
    place,
    sandboxId: row.sandbox_id,
    ref,
    looks,
    lookAt: row.look_at,
    isCertain: row.acted_at === null && looks.length > 1,
    actedAt: row.acted_at,
    operationId: row.operation_id,
  }
}

function viewDue({ id, backend, limit, since, limitMs, of, can_pause: canPause }: Due): Overdue {
  const { does, means } = LIMITS[limit]
  return {
    sandboxId: id,
    backend,
    limit,
    what: means,
    does: does === 'pause' && !canPause ? 'kill' : does,
    since,
    limitMs,
    of,
  }
}
