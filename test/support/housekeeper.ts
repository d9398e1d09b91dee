import path from 'node:path'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import type { Clock } from '../../src/clock.ts'
import type { Keep } from '../../src/config.ts'
import { Events } from '../../src/events.ts'
import { ring, ringForExecutions } from '../../src/fleet/bell.ts'
import { endSweeps } from '../../src/fleet/schedules.ts'
import { HOUSEKEEPING, type Patience } from '../../src/index.ts'
import type { Housekeeping } from '../../src/jobs/housekeeping.ts'
import { type ReapDeps, reap } from '../../src/jobs/reap.ts'
import { RollCall } from '../../src/jobs/roll-call.ts'
import { Scribe } from '../../src/jobs/scribe.ts'
import { sweep } from '../../src/jobs/sweep.ts'
import type { SweepDeps } from '../../src/jobs/tick.ts'
import type { Outcome } from '../../src/queues/outcome.ts'
import type { Limits } from '../../src/sandbox/limits.ts'
import { RecordedEvents } from './events.ts'
import { worldBackends } from './test-backend.ts'
import { QUICK, type World } from './world.ts'

const DAY_MS = 86_400_000

type Options = {
  limits?: Limits
  keep?: Partial<Keep>
  destroyMax?: number
  mayAct?: boolean
  patience?: Patience
  housekeeping?: Partial<Housekeeping>
}

export type Housekeeper = ReturnType<typeof housekeeper>

/**
 * The reaper and the sweeper of a world, ticking when they are told to, at a time that moves when it is told to. What they ask
 * for is carried out by the world's workers, whose time is the real one.
 */
export function housekeeper(world: World, options: Options = {}) {
  const { db, provider, dataFolder, place, eye } = world
  const { fleet } = place
  let aheadMs = 0
  const clock: Clock = { stoppedAt: () => new Date(Date.now() + aheadMs) }
  const events = new RecordedEvents()
  const base = { db, clock, fleet, worker: 'housekeeper', events }
  const bell = { ...base, producer: eye, events: new Events() }
  const local = openLocalBackend({ folder: path.join(dataFolder, 'sandboxes'), fleet })
  const backends = new Map([local, ...worldBackends(provider.url, fleet)].map((backend) => [backend.name, backend]))
  const deps: ReapDeps & SweepDeps = {
    ...base,
    backends,
    patience: options.patience ?? QUICK,
    ring: (due) => ring(bell, due),
    ringForExecutions: (ids) => ringForExecutions(bell, ids),
    announce: () => {},
    scribe: new Scribe(base),
    rollCall: new RollCall({ ...base, overdueMs: 1_000 }),
    limits: options.limits ?? {},
    keep: { eventsMs: 90 * DAY_MS, outputMs: 30 * DAY_MS, keysMs: 7 * DAY_MS, ...options.keep },
    destroyMax: options.destroyMax ?? 100,
    mayAct: options.mayAct ?? true,
    housekeeping: { ...HOUSEKEEPING, ...options.housekeeping },
    endSweeps: (backend) => endSweeps(eye, backend),
  }
  const { signal: forever } = new AbortController()

  return {
    deps,
    events,
    advance(ms: number) {
      aheadMs += ms
    },
    reap: (): Promise<Outcome> => reap(deps, { signal: forever }),
    /** One tick. `asked`: a whole new round, however long it takes. */
    sweep: (
      backend = 'test',
      { act = true, asked = false, signal = forever, madeAt = new Date() } = {},
    ): Promise<Outcome> => sweep(deps, { backend, act, asked }, { signal, madeAt }),
    /** A whole round, the time that has to be between two looks, and the second looks. */
    async sweepTwice(backend = 'test'): Promise<void> {
      await this.sweep(backend, { asked: true })
      aheadMs += deps.housekeeping.graceMs
      await this.sweep(backend, { asked: true })
    },
    findings: () => db.selectFrom('findings').selectAll().where('fleet', '=', fleet).orderBy('ref').execute(),
    state: async (backend = 'test') =>
      db.selectFrom('sweeps').selectAll().where('fleet', '=', fleet).where('backend', '=', backend).executeTakeFirst(),
  }
}
