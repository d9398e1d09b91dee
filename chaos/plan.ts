import { Random } from '../proof/random.ts'

/** What is done to a fleet, and what that means. */
export const FAULTS = {
  worker_killed:
    'a worker that has worked for a while is killed (SIGKILL), unless it is the last one, and another one is started at once',
  worker_stopped: 'a worker stands still (SIGSTOP) for a while, at times for longer than its locks hold, and goes on',
  web_killed: 'a web process is killed (SIGKILL), and another one is started at once',
  redis_killed: 'Redis is killed, and comes back empty',
  redis_flushed: 'Redis forgets everything (FLUSHALL)',
  postgres_killed: 'Postgres is ended (SIGKILL, immediate or fast), and comes back on its folder',
  connections_cut: 'every connection to Postgres is cut (pg_terminate_backend)',
  provider_away: 'the provider answers nobody for a while: calls hang or are reset',
} as const

export type FaultKind = keyof typeof FAULTS

export type PlannedFault = {
  atMs: number
  kind: FaultKind
  /** Which of several, by any number. */
  which: number
  /** For how long it lasts, or until what was killed is started again. */
  lastsMs: number
  signal: NodeJS.Signals
}

type PlanOptions = {
  seed: number
  forMs: number
  killEveryMs: number
  queues: 'redis' | 'postgres'
  faults: readonly FaultKind[]
}

/** A worker that stands still for longer than the lock of an operation's job (10 s) has lost it when it goes on. */
const STANDS_STILL_MS = { short: [500, 4_000], long: [11_000, 15_000] } as const
const LONG_SHARE = 0.35
const AWAY_MS = { redis: [0, 2_000], postgres: [0, 1_500], provider: [1_000, 5_000] } as const
/** How long the others are apart: about fifteen in a run, but no closer than this and no further than that. */
const OTHERS_APART_MS = [800, 4_000] as const
const OTHERS = 15

/** Without Redis, nothing can be done to it. */
export function wantedFaults({ queues, faults }: Pick<PlanOptions, 'queues' | 'faults'>): FaultKind[] {
  return faults.filter((kind) => queues === 'redis' || !kind.startsWith('redis'))
}

/**
 * Which fault comes when. Workers are killed one after the other, at the same pace; the others come from a bag in which each kind
 * is once, so that a short run has all of them, too.
 */
export function planFaults(options: PlanOptions): PlannedFault[] {
  const { seed, forMs, killEveryMs } = options
  const wanted = wantedFaults(options)
  const random = new Random(`${seed} faults`)
  const planned: PlannedFault[] = []
  const kills = wanted.includes('worker_killed') ? Math.ceil(forMs / killEveryMs) - 1 : 0
  for (let nth = 1; nth <= kills; nth++) planned.push(fault('worker_killed', nth * killEveryMs, random))
  const others = wanted.filter((kind) => kind !== 'worker_killed')
  const [least, most] = OTHERS_APART_MS
  const apartMs = Math.min(most, Math.max(least, forMs / OTHERS))
  let bag: FaultKind[] = []
  for (let atMs = apartMs; atMs < forMs && others.length > 0; atMs += random.between(0.5, 1.5) * apartMs) {
    if (bag.length === 0) bag = random.shuffled(others)
    planned.push(fault(bag.pop() as FaultKind, atMs, random))
  }
  return planned.sort((a, b) => a.atMs - b.atMs)
}

function fault(kind: FaultKind, atMs: number, random: Random): PlannedFault {
  const which = random.below(1_000)
  const signal = kind === 'postgres_killed' ? random.pick(['SIGKILL', 'SIGQUIT', 'SIGINT'] as const) : 'SIGKILL'
  return { atMs: Math.round(atMs), kind, which, lastsMs: Math.round(lastsMs(kind, random)), signal }
}

function lastsMs(kind: FaultKind, random: Random): number {
  if (kind === 'worker_stopped') {
    const [least, most] = random.chance(LONG_SHARE) ? STANDS_STILL_MS.long : STANDS_STILL_MS.short
    return random.between(least, most)
  }
  if (kind === 'redis_killed') return random.between(...AWAY_MS.redis)
  if (kind === 'postgres_killed') return random.between(...AWAY_MS.postgres)
  return kind === 'provider_away' ? random.between(...AWAY_MS.provider) : 0
}
