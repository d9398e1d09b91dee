import { findExecutions } from '../src/db/executions.ts'
import { findOperations } from '../src/db/operations.ts'
import { touch } from '../src/db/touch.ts'
import { isSandmanError } from '../src/errors.ts'
import { Events } from '../src/events.ts'
import { ask, askToCancel, askToExecute, askToSpawn } from '../src/fleet/ask.ts'
import { Producer } from '../src/queues/bullmq/producer.ts'
import { databaseClock } from './database.ts'
import { Life } from './life.ts'
import { freeInstance } from './provider/free.ts'
import type { Told } from './told.ts'
import type { Wish } from './wishes.ts'
import { FLEET, type World } from './world.ts'

/** What an app may be told instead of an answer, and need not wonder about. */
const FAIR = ['execution_refused', 'idempotency_key_reused', 'sandbox_not_found'] as const
const TRIES_MAX = 5
const LOOK_EVERY_MS = 2_000

type Wanted<Is extends Wish['is']> = Extract<Wish, { is: Is }>

/** Somebody who asks, through a web process that may die: then, with a key, the same is asked again. */
export class User {
  readonly #world: World
  readonly #name: string
  readonly #wishes: readonly Wish[]
  readonly #told: Told
  #at = 0
  #lives = 0
  life: Life | undefined

  constructor(world: World, name: string, wishes: readonly Wish[], told: Told) {
    this.#world = world
    this.#name = name
    this.#wishes = wishes
    this.#told = told
  }

  get isDone(): boolean {
    return this.#at >= this.#wishes.length
  }

  start(): void {
    const { engine, random } = this.#world
    const life = new Life(`${this.#name}.${++this.#lives}`)
    this.life = life
    life.atDeath(() => {
      // Without a key nobody can know whether it was heard: whoever asks twice may get two.
      if (this.#wishes[this.#at]?.key === undefined) this.#at++
      engine.after(random.between(100, 5_000), `${this.#name} comes back`, () => this.start())
    })
    void life.do(() => this.#live())
  }

  async #live(): Promise<void> {
    const { database, store } = this.#world
    const producer = new Producer(store.open())
    const deps = { db: database.db, producer, fleet: FLEET, clock: databaseClock, events: new Events() }
    for (; this.#at < this.#wishes.length; this.#at++) {
      const wish = this.#wishes[this.#at] as Wish
      await pause(wish.afterMs)
      await this.#askFor(deps, wish)
    }
  }

  async #askFor(deps: Deps, wish: Wish): Promise<void> {
    for (let tries = 1; tries <= TRIES_MAX; tries++) {
      try {
        return await this.#ask(deps, wish)
      } catch (error) {
        if (FAIR.some((code) => isSandmanError(error, code))) return
        if (!/^Connection terminated/.test((error as Error).message)) {
          const { findings } = this.#world
          return findings.add('no request fails by itself', this.#name, `${wish.is}: ${(error as Error).stack}`)
        }
        if (wish.key === undefined) return // it may have been heard
        await pause(1_000)
      }
    }
  }

  #ask(deps: Deps, wish: Wish): Promise<void> {
    switch (wish.is) {
      case 'spawn':
        return this.#spawn(deps, wish)
      case 'adopt':
        return this.#adopt(deps, wish)
      case 'verb':
        return this.#verb(deps, wish)
      case 'execute':
        return this.#execute(deps, wish)
      case 'cancel':
        return this.#cancel(deps, wish)
      case 'touch':
        return this.#touch(deps, wish)
      case 'again': {
        const last = this.#wishes[this.#at - 1] as Wish
        return last.key === undefined || last.is === 'again' ? Promise.resolve() : this.#ask(deps, last)
      }
    }
  }

  async #spawn(deps: Deps, wish: Wanted<'spawn'>): Promise<void> {
    const { backend, ttl, key } = wish
    const from = wish.isFromSnapshot ? this.#told.snapshot(wish.which, backend) : undefined
    // With the same key the same has to be asked for, whatever is known by now.
    const spec = this.#told.remember(key, { ...wish.spec, ...(from && { from }) })
    const requested = await askToSpawn(deps, { backend, ...this.#abilities(backend), spec, ttl, idempotencyKey: key })
    this.#told.accepted(requested, key, backend)
    await this.#wait(deps, requested.operation.id, wish.waitMs)
  }

  async #adopt(deps: Deps, wish: Wanted<'adopt'>): Promise<void> {
    const { backend, key } = wish
    const { cloud } = this.#world
    const spec = this.#told.remember(key, {
      adopt: freeInstance(cloud, this.#world.abilitiesOf(backend), wish.isAsleep),
    })
    const requested = await askToSpawn(deps, { backend, ...this.#abilities(backend), spec, idempotencyKey: key })
    this.#told.accepted(requested, key, backend)
    await this.#wait(deps, requested.operation.id, wish.waitMs)
  }

  #abilities(backend: string) {
    const { pausing, canSnapshot } = this.#world.abilitiesOf(backend)
    return { canPause: pausing !== 'none', canSnapshot }
  }

  async #verb(deps: Deps, { kind, options, which, key, waitMs }: Wanted<'verb'>): Promise<void> {
    const sandboxId = this.#told.remember(key, this.#told.sandbox(which))
    if (sandboxId === undefined) return
    const requested = await ask(deps, { sandboxId, kind, options, idempotencyKey: key })
    this.#told.accepted(requested, key)
    await this.#wait(deps, requested.operation.id, waitMs)
  }

  async #execute(deps: Deps, wish: Wanted<'execute'>): Promise<void> {
    const { command, options, deadlineMs: hardDeadlineMs, silenceMs, outputBytesMax, key, waitMs } = wish
    const sandboxId = this.#told.remember(key, this.#told.sandbox(wish.which))
    if (sandboxId === undefined) return
    const asked = { sandboxId, command, options, hardDeadlineMs, silenceMs, outputBytesMax, idempotencyKey: key }
    const { execution } = await askToExecute(deps, asked)
    this.#told.begun(execution, key)
    for (let leftMs = waitMs; leftMs > 0; leftMs -= LOOK_EVERY_MS) {
      await pause(LOOK_EVERY_MS)
      const [found] = await findExecutions(deps.db, { fleet: FLEET, ids: [execution.id] })
      if (found && found.execution.ended_at !== null) return this.#told.ended(found.execution)
    }
  }

  async #cancel(deps: Deps, { which }: Wanted<'cancel'>): Promise<void> {
    const id = this.#told.execution(which)
    if (id === undefined) return
    this.#told.cancelled.add(id)
    await askToCancel(deps, id)
  }

  async #touch({ db }: Deps, { which }: Wanted<'touch'>): Promise<void> {
    const id = this.#told.sandbox(which)
    if (id !== undefined) await touch(db, { fleet: FLEET, id, clock: databaseClock })
  }

  async #wait({ db }: Deps, id: string, waitMs: number): Promise<void> {
    for (let leftMs = waitMs; leftMs > 0; leftMs -= LOOK_EVERY_MS) {
      const [found] = await findOperations(db, { fleet: FLEET, ids: [id], settled: true })
      if (found) return this.#told.settled(found.operation)
      await pause(LOOK_EVERY_MS)
    }
  }
}

type Deps = Parameters<typeof ask>[0]

/** In the time of whoever waits. */
function pause(ms: number): Promise<void> {
  return new Promise((resolve) => {
    setTimeout(resolve, ms)
  })
}
