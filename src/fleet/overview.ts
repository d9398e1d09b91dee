import type { Clock } from '../clock.ts'
import { dbTime } from '../db/now.ts'
import {
  countFindings,
  countSandboxes,
  type ExpiringRow,
  type FailingRow,
  findExpiring,
  findFailing,
  findMissing,
  findStuck,
  type MissingRow,
  type StuckRow,
} from '../db/overview.ts'
import type { Db } from '../db/pool.ts'
import { listSweeps } from '../db/sweeps.ts'
import { readTrends } from '../db/tallies.ts'
import type { Producer } from '../queues/bullmq/producer.ts'
import { QUEUE_NAMES, type QueueName } from '../queues/names.ts'
import type { FailureType } from '../sandbox/failures.ts'
import { FINDINGS, type FindingKind } from '../sandbox/findings.ts'
import type { Limits } from '../sandbox/limits.ts'
import type { State } from '../sandbox/states.ts'
import { checkHealth, type Health } from './health.ts'
import { type Sweep, viewSweep } from './sweep.ts'
import { viewResumes, viewTrends } from './trends.ts'
import { type OperationError, viewError } from './views.ts'
import { when } from './words.ts'

/** A fleet at a glance: what there is, what is wrong with it, and how it has gone lately. Read at most once in a few seconds, for all who ask. */
export type Overview = {
  at: Date
  health: Health
  /** Every sandbox that is not gone. */
  counts: { state: State; backend: string; count: number; oldestSince: Date }[]
  /** Operations that have been worked on, or waited for, longer than any should be. The longest first, a few of them. */
  stuck: Stuck[]
  /** How many there are, up to a thousand. */
  stuckCount: number
  /** Sandboxes that may be lost soon, and why. */
  atRisk: AtRisk[]
  /** The latest operations that have failed, of the last 24 hours. */
  failing: Failing[]
  /** Of the last 24 hours. */
  resumes: {
    succeeded: number
    failed: { errorType: FailureType; count: number }[]
    p50Ms: number | null
    p95Ms: number | null
  }
  /** Null when they cannot be read. */
  queues: QueueGlance[] | null
  /** What the sweeper has found, in both directions: what we know and the provider has not, and the other way round. */
  orphans: { direction: 'missing_there' | 'unknown_here'; kind: FindingKind; open: number; endedLastDay: number }[]
  sweeps: Sweep[]
  trends: Trend[]
}

export type Stuck = Omit<StuckRow, 'lastError'> & { lastError: OperationError | null }

export type AtRisk = {
  sandboxId: string
  backend: string
  state: State
  why: 'expires_soon' | 'instance_missing' | 'checkpoint_missing'
  /** What is known, and what can be done, in a sentence or two. */
  text: string
  /** When it expires, or since when it is missed. */
  at: Date
}

export type Failing = Omit<FailingRow, 'error'> & { error: OperationError }

export type QueueGlance = {
  name: QueueName
  waiting: number
  active: number
  delayed: number
  failed: number
  /** How long the first in line has waited; null when none waits. */
  oldestMs: number | null
}

/** Numbers over time, the oldest first, each of `everyMs`; the last is not over yet. */
export type Trend = { name: string; unit: 'count' | 'ms' | 'percent'; everyMs: number; values: (number | null)[] }

const DAY_MS = 86_400_000
/** Parts of a trend: fine enough for a line, and few enough to be read at a glance. */
const TREND_EVERY_MS = 900_000
/** Of everything that somebody has to look at, so many. */
const SHOWN_MAX = 20
/** Longer than a pause and the check of its checkpoint take at a provider that is slow, and shorter than anybody's patience. */
export const STUCK_MS = 600_000
/** A provider's time is renewed when half of it is over. What has less left than this was not. */
const EXPIRES_SOON_MS = 600_000

type OverviewDeps = { db: Db; producer: Producer; fleet: string; clock: Clock; limits: Limits }

/** A fixed number of statements, one after the other on one connection, each of which reads an index. */
export async function readOverview(deps: OverviewDeps): Promise<Overview> {
  const { db, producer, fleet, clock, limits } = deps
  const [health, queues] = await Promise.all([checkHealth({ db, producer }), glanceAtQueues(producer)])
  const asked = { fleet, clock, max: SHOWN_MAX }
  const read = await db.connection().execute(async (session) => ({
    at: await dbTime(session, clock),
    counts: await countSandboxes(session, fleet),
    stuck: await findStuck(session, { ...asked, olderThanMs: STUCK_MS }),
    missing: await findMissing(session, asked),
    expiring: await findExpiring(session, { ...asked, withinMs: EXPIRES_SOON_MS, hardMs: limits.hardMs }),
    failing: await findFailing(session, { ...asked, withinMs: DAY_MS }),
    findings: await countFindings(session, asked),
    sweeps: await listSweeps(session, fleet),
    trends: await readTrends(session, { fleet, clock, withinMs: DAY_MS, everyMs: TREND_EVERY_MS }),
  }))
  const { at, trends } = read
  return {
    at,
    health,
    counts: read.counts,
    stuck: read.stuck.longest.map((row) => ({ ...row, lastError: viewError(row.lastError) })),
    stuckCount: read.stuck.count,
    atRisk: [...read.missing.map(viewMissing), ...read.expiring.map((row) => viewExpiring(row, at))].slice(
      0,
      SHOWN_MAX,
    ),
    failing: read.failing.map((row) => ({ ...row, error: viewError(row.error) as OperationError })),
    resumes: viewResumes(trends),
    queues,
    orphans: KINDS_OF_FINDINGS.map((kind) => {
      const { open = 0, endedLastDay = 0 } = read.findings.find((counted) => counted.kind === kind) ?? {}
      return { direction: DIRECTIONS[kind], kind, open, endedLastDay }
    }),
    sweeps: read.sweeps.map((row) => viewSweep(row, at)),
    trends: viewTrends(trends, { at, withinMs: DAY_MS, everyMs: TREND_EVERY_MS }),
  }
}

const KINDS_OF_FINDINGS = Object.keys(FINDINGS) as FindingKind[]

const DIRECTIONS = {
  instance_missing: 'missing_there',
  checkpoint_missing: 'missing_there',
  instance_unowned: 'unknown_here',
  checkpoint_unowned: 'unknown_here',
} as const satisfies Record<FindingKind, Overview['orphans'][number]['direction']>

/** A queue that is away is no reason not to show the rest. */
async function glanceAtQueues(producer: Producer): Promise<QueueGlance[] | null> {
  const counts = await producer.counts().catch(() => null)
  return counts && QUEUE_NAMES.map((name) => ({ name, ...counts[name] }))
}

function viewMissing({ sandboxId, backend, state, why, place, saw, since, looks, lookAt }: MissingRow): AtRisk {
  const what = why === 'instance_missing' ? 'it' : 'what it would be resumed from'
  const next =
    looks > 1
      ? 'That was seen twice, and the sweeper ends it as gone with the next tick that may act'
      : `It is looked at again after ${when(lookAt)}, and if that is still so, the sweeper ends it as gone`
  const text = `Its provider does not show ${what} at ${place}: ${saw}. ${next}. If it is there after all, look whether the workers see the right account (sandman sweep --dry-run).`
  return { sandboxId, backend, state, why, text, at: since }
}

function viewExpiring({ sandboxId, backend, state, expiresAt }: ExpiringRow, at: Date): AtRisk {
  const ends =
    expiresAt > at ? `ends or pauses it at ${when(expiresAt)}` : `was to end or pause it at ${when(expiresAt)}`
  const text = `Its provider ${ends}, and its time was not renewed. Look whether a worker with the backend ${backend} takes the queue reaper, and what the log says of reaper.not_renewed; a pause keeps what is in it.`
  return { sandboxId, backend, state, why: 'expires_soon', text, at: expiresAt }
}
