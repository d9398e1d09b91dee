import { Events } from '../src/events.ts'
import type { Running } from '../src/fleet/shutdown.ts'
import { takeUpWork } from '../src/fleet/worker.ts'
import { Producer } from '../src/queues/bullmq/producer.ts'
import { QUEUE_NAMES, type QueueName } from '../src/queues/names.ts'
import { databaseClock } from './database.ts'
import { listenTo } from './events.ts'
import { Life } from './life.ts'
import { FLEET, type World } from './world.ts'

const DAY_MS = 86_400_000
const GRACE_MS = 25_000
/** Less often than in production: most of what it finds there is nothing, and each look costs a statement. */
const RING_EVERY_MS = 7_000
/** After its death, or its stop, another one is started in its place. */
const RESTART_MS = [300, 20_000] as const

/** A place for a worker: one after the other lives there. */
export class WorkerPlace {
  readonly #world: World
  readonly #nth: number
  readonly #queues: QueueName[]
  readonly #backends: readonly string[]
  #lives = 0
  life: Life | undefined
  #running: Running | undefined

  constructor(world: World, nth: number, parts: { queues: QueueName[]; backends: readonly string[] }) {
    this.#world = world
    this.#nth = nth
    this.#queues = parts.queues
    this.#backends = parts.backends
  }

  get lives(): number {
    return this.#lives
  }

  start(): void {
    const { engine, random } = this.#world
    const life = new Life(`worker ${this.#nth}.${++this.#lives}`)
    this.life = life
    life.atDeath(() =>
      engine.after(random.between(...RESTART_MS), `worker ${this.#nth} is started anew`, () => this.start()),
    )
    this.#running = life.do(() => this.#work(life))
  }

  /** As at a deploy: it is told to stop, and does so within its grace. */
  stop(): void {
    const { life } = this
    const running = this.#running
    if (!life || !running || life.isDead) return
    this.#running = undefined
    void life.do(() => running.stop().then(() => life.die()))
  }

  #work(life: Life): Running {
    const { database, store, backends, patience, housekeeping, limits } = this.#world
    const events = new Events()
    listenTo(this.#world, life, events)
    const config = {
      ...{ fleet: FLEET, ttl: limits, destroyMax: 100, queues: this.#queues, graceMs: GRACE_MS },
      sweeper: 'act' as const,
      keep: { eventsMs: 90 * DAY_MS, outputMs: 30 * DAY_MS, keysMs: 7 * DAY_MS },
    }
    const ground = {
      handle: { db: database.db, close: async () => {} },
      store: store.open(),
      producer: new Producer(store.open()),
      backends: new Map([...backends].filter(([name]) => this.#backends.includes(name))),
      clock: databaseClock,
      workerName: life.name,
    }
    return takeUpWork(config, ground, events, { patience, housekeeping, ringEveryMs: RING_EVERY_MS })
  }
}

const QUEUES = QUEUE_NAMES.filter((name) => name !== 'canary')

/** Some workers have everything; others lack a backend, or take only some queues. One at least has everything. */
export function drawWorkers(world: World): WorkerPlace[] {
  const random = world.random.fork('workers')
  const names = [...world.backends.keys()]
  return Array.from({ length: random.integer(2, 4) }, (_, nth) => {
    const isWhole = nth === 0 || random.chance(0.6)
    const backends = isWhole ? names : names.filter(() => random.chance(0.6))
    const queues = isWhole || random.chance(0.5) ? QUEUES : QUEUES.filter(() => random.chance(0.6))
    return new WorkerPlace(world, nth + 1, { queues, backends })
  })
}
