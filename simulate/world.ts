import type pg from 'pg'
import { Random } from '../proof/random.ts'
import type { Backend } from '../src/backends/backend.ts'
import { HOUSEKEEPING, type Housekeeping } from '../src/jobs/housekeeping.ts'
import { PATIENCE, type Patience } from '../src/jobs/patience.ts'
import type { Limits } from '../src/sandbox/limits.ts'
import { Conduct } from './conduct.ts'
import { SimulatedDatabase } from './database.ts'
import { Engine } from './engine.ts'
import { Faults } from './faults.ts'
import { Findings } from './findings.ts'
import { BACKENDS } from './provider/abilities.ts'
import { simulatedBackend } from './provider/backend.ts'
import { type Abilities, Cloud } from './provider/cloud.ts'
import { putInstance } from './provider/perform.ts'
import { haveWhims } from './provider/whims.ts'
import { SimulatedStore } from './queue/store.ts'
import { Trace } from './trace.ts'
import { liveIn } from './virtual-time.ts'

export const FLEET = 'simulated'

/** What is put in the place of a part, to see that the simulation would notice. */
export type Sabotage = {
  backend?: (backend: Backend) => Backend
  /** Whether a statement is run as it is; or what is run instead. */
  statement?: (text: string) => string
  /** How long everything has to come to rest, when that is not the usual. */
  settleMs?: number
}

type WorldOptions = {
  seed: number
  client: pg.ClientBase
  print?: ((line: string) => void) | undefined
  sabotage?: Sabotage
}

/** Everything but Sandman itself: time, chance, a database, queues, providers. */
export class World {
  readonly random: Random
  readonly trace: Trace
  readonly engine: Engine
  readonly faults = new Faults()
  readonly conduct: Conduct
  readonly database: SimulatedDatabase
  readonly store: SimulatedStore
  readonly cloud: Cloud
  readonly findings: Findings
  readonly backends: ReadonlyMap<string, Backend>
  readonly abilities: readonly Abilities[] = BACKENDS
  readonly patience: Patience
  readonly housekeeping: Housekeeping
  readonly limits: Limits
  readonly sabotage: Sabotage
  /** Told of a sandbox in the moment in which a worker knows that something of it has settled. */
  readonly settled = new Set<(sandboxId: string) => void>()

  constructor({ seed, client, print, sabotage = {} }: WorldOptions) {
    this.random = new Random(`sandman ${seed}`)
    this.trace = new Trace(print)
    this.engine = new Engine(this.random.fork('engine'), this.trace)
    this.conduct = new Conduct(this.random.fork('conduct'), this.faults)
    this.findings = new Findings(this.engine)
    const { engine, conduct } = this
    const rewrite = sabotage.statement ?? ((text: string) => text)
    this.database = new SimulatedDatabase({ engine, client, conduct, rewrite })
    this.store = new SimulatedStore(engine, conduct)
    this.cloud = new Cloud({ engine, conduct, random: this.random.fork('provider'), fleet: FLEET })
    this.sabotage = sabotage
    const open = (abilities: Abilities) => (sabotage.backend ?? ((it) => it))(simulatedBackend(this.cloud, abilities))
    this.backends = new Map(BACKENDS.map((abilities) => [abilities.name, open(abilities)]))
    const own = this.random.fork('settings')
    this.patience = own.chance(0.3) ? PATIENCE : BRISK
    this.housekeeping = TIDY
    this.limits = own.chance(0.5)
      ? {}
      : { idleMs: own.integer(60, 600) * 1_000, ...(own.chance(0.5) && { ifUnsupported: 'kill' }) }
    liveIn(engine, () => this.#preview())
    haveWhims(this.cloud, (name) => this.abilitiesOf(name))
    this.#flushNowAndThen()
    // What others have made, with another label or none: nobody may touch it.
    for (const abilities of BACKENDS)
      for (const fleet of ['another', 'nobody'])
        putInstance(
          this.cloud,
          { ...abilities, lease: 'none' },
          { sandboxId: `of-${fleet}`, life: 'theirs', fleet, ttlMs: 0 },
        )
  }

  abilitiesOf(name: string): Abilities {
    return this.abilities.find((abilities) => abilities.name === name) as Abilities
  }

  #flushNowAndThen(): void {
    this.engine.after(60_000, 'the queue may be flushed', () => {
      if (this.conduct.happens('queue_flushed')) {
        this.trace.tell(this.engine.elapsedMs, 'world', 'the queue forgets everything')
        this.store.flush()
      }
      this.#flushNowAndThen()
    })
  }

  /** What listens inside of a sandbox. */
  #preview(): Promise<Response> {
    const isUp = !this.conduct.happens('hook_fails')
    return new Promise((resolve) => {
      setTimeout(() => resolve(new Response('hello', { status: isUp ? 200 : 502 })), 20)
    })
  }
}

/** Less patient than in production, so that a run comes sooner to what happens when patience ends. */
const BRISK: Patience = {
  ...PATIENCE,
  callMs: Object.fromEntries(
    Object.entries(PATIENCE.callMs).map(([call, ms]) => [call, Math.min(ms, 20_000)]),
  ) as Patience['callMs'],
  changingMs: 30_000,
  pendingMs: 20_000,
  previewMs: 10_000,
  unknownMs: 15_000,
}

/** The sweeper looks sooner for the second time, so that what is left over is gone within minutes. */
const TIDY: Housekeeping = {
  ...HOUSEKEEPING,
  roundMs: 60_000,
  looksApartMs: 20_000,
  graceMs: 90_000,
  lookAgainMs: 20_000,
  remainsMs: 180_000,
  reapAgainMs: 60_000,
  overdueMs: 600_000,
}
