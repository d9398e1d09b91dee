import { findExecutions } from '../src/db/executions.ts'
import { findOperations } from '../src/db/operations.ts'
import type { Requested } from '../src/db/request.ts'
import type { CheckpointRow, ExecutionRow, OperationRow, SandboxRow } from '../src/db/schema.ts'
import { Events } from '../src/events.ts'
import { ask, askToExecute, askToSpawn } from '../src/fleet/ask.ts'
import { Producer } from '../src/queues/bullmq/producer.ts'
import type { Limits } from '../src/sandbox/limits.ts'
import { databaseClock } from './database.ts'
import type { Abilities, Instance } from './provider/cloud.ts'
import type { Told } from './told.ts'
import type { VerbKind } from './wishes.ts'
import { FLEET, type World } from './world.ts'

/** Without a word of any worker. A word comes in the moment in which something has settled, before a sweeper can mend it. */
const LOOK_EVERY_MS = 15_000
/** Far longer than anything takes that nothing stands in the way of. */
const WAIT_MS_MAX = 300_000
const DEADLINE_MS = 240_000
const OUTPUT_BYTES_MAX = 1 << 22

/** What was not done, although nothing stood in its way. */
export class NotDone extends Error {}

/** Somebody who asks for one thing after the other, of one backend that does not fail, and looks whether it was done. */
export class LastUser {
  readonly #world: World
  readonly #told: Told
  readonly #deps: Parameters<typeof ask>[0]
  readonly abilities: Abilities
  sandboxId = ''

  constructor(world: World, told: Told, abilities: Abilities) {
    const { database, store } = world
    this.#world = world
    this.#told = told
    this.abilities = abilities
    const producer = new Producer(store.open())
    this.#deps = { db: database.db, producer, fleet: FLEET, clock: databaseClock, events: new Events() }
  }

  async spawn(ttl: Limits): Promise<OperationRow> {
    const { name: backend, pausing, canSnapshot } = this.abilities
    const asked = { backend, canPause: pausing !== 'none', canSnapshot, spec: {}, ttl }
    const requested = await askToSpawn(this.#deps, asked)
    this.sandboxId = requested.sandbox.id
    return this.#answerTo(requested)
  }

  async ask(kind: VerbKind): Promise<OperationRow> {
    return this.#answerTo(await ask(this.#deps, { sandboxId: this.sandboxId, kind, options: {} }))
  }

  async execute(command: string[]): Promise<ExecutionRow> {
    const { sandboxId } = this
    const asked = { sandboxId, command, hardDeadlineMs: DEADLINE_MS, outputBytesMax: OUTPUT_BYTES_MAX }
    const { execution } = await askToExecute(this.#deps, asked)
    const { id } = execution
    return this.#until('an execution', async () => {
      const [found] = await findExecutions(this.#deps.db, { fleet: FLEET, ids: [id] })
      return found?.execution.ended_at ? found.execution : undefined
    })
  }

  /** Until its sandbox rests elsewhere, without anybody having asked for it. */
  async untilLeft(state: SandboxRow['state'], into: readonly SandboxRow['state'][]): Promise<SandboxRow['state']> {
    const { sandboxId: id } = this
    return this.#until(`that it is not ${state}`, async () => {
      const row = await this.#deps.db.selectFrom('sandboxes').select('state').where('id', '=', id).executeTakeFirst()
      return into.find((wanted) => wanted === row?.state)
    })
  }

  async checkpoint(id: string | null): Promise<CheckpointRow | undefined> {
    if (id === null) return undefined
    return this.#deps.db.selectFrom('checkpoints').selectAll().where('id', '=', id).executeTakeFirst()
  }

  /** What its provider has of it, whatever anybody was told. */
  get instances(): Instance[] {
    return this.#world.cloud.instancesOf(this.sandboxId)
  }

  require(isTrue: boolean, what: string, seen: unknown): void {
    if (!isTrue) throw new NotDone(`${what}, and not: ${JSON.stringify(seen)}`)
  }

  async #answerTo(requested: Requested): Promise<OperationRow> {
    const { id, kind } = requested.operation
    this.#told.accepted(requested, undefined)
    return this.#until(kind, async () => {
      const [found] = await findOperations(this.#deps.db, { fleet: FLEET, ids: [id], settled: true })
      if (found) this.#told.settled(found.operation)
      return found?.operation
    })
  }

  async #until<T>(what: string, look: () => Promise<T | undefined>): Promise<T> {
    const untilMs = Date.now() + WAIT_MS_MAX
    while (Date.now() < untilMs) {
      const word = this.#word()
      const found = await look()
      if (found !== undefined) return found
      await word
    }
    throw new NotDone(`${what} was waited for, for ${WAIT_MS_MAX / 1_000} s`)
  }

  /** The next one about its sandbox. */
  #word(): Promise<void> {
    const { settled } = this.#world
    const { promise, resolve } = Promise.withResolvers<void>()
    const heard = (sandboxId: string) => {
      if (sandboxId === this.sandboxId) over()
    }
    const timer = setTimeout(over, LOOK_EVERY_MS)
    settled.add(heard)
    function over() {
      clearTimeout(timer)
      settled.delete(heard)
      resolve()
    }
    return promise
  }
}
