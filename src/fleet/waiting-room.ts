import { type Listener, listen } from '../db/announce.ts'
import { type FoundExecution, findExecutions } from '../db/executions.ts'
import { type FoundOperation, findOperations } from '../db/operations.ts'
import type { Db } from '../db/pool.ts'
import { SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { kindOfId } from '../sandbox/ids.ts'

/** How often the waiting room looks by itself, for all who wait in it at once: the net under a notice that was lost. */
const LOOK_EVERY_MS = 2_000
const BATCH_MAX = 500

type Deps = { db: Db; databaseUrl: string; fleet: string; events: Events; lookEveryMs?: number }
type Found = FoundOperation | FoundExecution
type Waiter = {
  show(found: Found): void
  reject(reason: unknown): void
  /** As if its time were over. Whoever has no limit waits on. */
  giveUp(): void
}
type Waiting = { withinMs: number; signal?: AbortSignal | undefined }

/**
 * Where callers wait for operations to settle, and for executions to print something or to end. However many they are, they
 * share one connection that listens and one statement of each kind that looks: for what was announced, for who has just come
 * in, and every now and then for everybody.
 */
export class WaitingRoom {
  readonly #deps: Deps
  readonly #waiters = new Map<string, Set<Waiter>>()
  readonly #due = new Set<string>()
  #looking: Promise<void> | undefined
  #listener: Listener | undefined
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #isHurried = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  /** The operation once it has settled; undefined when it has not within this time. */
  operation(id: string, waiting: Waiting): Promise<FoundOperation | undefined> {
    return this.#until<FoundOperation>(id, () => true, waiting)
  }

  /** The execution once it is so; undefined when it is not within this time. */
  execution(
    id: string,
    isSo: (found: FoundExecution) => boolean,
    waiting: Waiting,
  ): Promise<FoundExecution | undefined> {
    return this.#until<FoundExecution>(id, isSo, waiting)
  }

  async #until<T extends Found>(id: string, isSo: (found: T) => boolean, waiting: Waiting): Promise<T | undefined> {
    const { withinMs, signal } = waiting
    if (this.#isClosed) throw closed()
    signal?.throwIfAborted()
    const { promise, resolve, reject } = Promise.withResolvers<T | undefined>()
    // Which kind of thing is found for an id is said by the id.
    const show = (found: Found) => {
      if (isSo(found as T)) resolve(found as T)
    }
    const isBounded = Number.isFinite(withinMs)
    const giveUp = () => {
      if (isBounded) resolve(undefined)
    }
    const waiter = { show, reject, giveUp }
    const timer = isBounded ? setTimeout(giveUp, this.#isHurried ? 0 : withinMs) : undefined
    const onAbort = () => reject(signal?.reason)
    signal?.addEventListener('abort', onAbort)
    this.#enter(id, waiter)
    try {
      return await promise
    } finally {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      this.#leave(id, waiter)
    }
  }

  /** Whoever waits for some time gets what there is now, and so does everybody who comes from now on. */
  hurry(): void {
    this.#isHurried = true
    for (const waiters of this.#waiters.values()) for (const { giveUp } of waiters) giveUp()
  }

  /** Whoever still waits is told so. */
  async close(): Promise<void> {
    this.#isClosed = true
    clearInterval(this.#timer)
    for (const waiters of this.#waiters.values()) for (const { reject } of waiters) reject(closed())
    // A look that is under way is not waited for: it is a statement like any other, and ends with its pool.
    await this.#listener?.close()
  }

  #enter(id: string, waiter: Waiter): void {
    const { databaseUrl, fleet, events, lookEveryMs = LOOK_EVERY_MS } = this.#deps
    this.#waiters.set(id, (this.#waiters.get(id) ?? new Set()).add(waiter))
    this.#listener ??= listen({
      databaseUrl,
      fleet,
      heard: (ids) => this.#look(ids),
      connected: () => this.#look(this.#waiters.keys()),
      lost: (error) => events.emit('database.connection_lost', { error }),
    })
    this.#timer ??= setInterval(() => this.#look(this.#waiters.keys()), lookEveryMs)
    // It may have settled before anybody waited for it.
    this.#look([id])
  }

  #leave(id: string, waiter: Waiter): void {
    const waiters = this.#waiters.get(id)
    waiters?.delete(waiter)
    if (waiters?.size === 0) {
      this.#waiters.delete(id)
      this.#due.delete(id)
    }
    if (this.#waiters.size > 0) return
    clearInterval(this.#timer)
    this.#timer = undefined
  }

  #look(ids: Iterable<string>): void {
    for (const id of ids) if (this.#waiters.has(id)) this.#due.add(id)
    if (this.#due.size === 0 || this.#isClosed) return
    this.#looking ??= this.#lookAtDue().finally(() => {
      this.#looking = undefined
      this.#look([]) // what became due while the last answer was on its way
    })
  }

  async #lookAtDue(): Promise<void> {
    // Whoever comes in within the same moment is looked at with the others.
    await Promise.resolve()
    const ids = [...this.#due].slice(0, BATCH_MAX)
    for (const id of ids) this.#due.delete(id)
    const isExecution = (id: string) => kindOfId(id) === 'execution'
    const executionIds = ids.filter(isExecution)
    const operationIds = ids.filter((id) => !isExecution(id))
    const { db, fleet, events } = this.#deps
    try {
      const found = await Promise.all([
        operationIds.length > 0 ? findOperations(db, { fleet, ids: operationIds, settled: true }) : [],
        executionIds.length > 0 ? findExecutions(db, { fleet, ids: executionIds }) : [],
      ])
      for (const each of found.flat()) {
        const { id } = 'operation' in each ? each.operation : each.execution
        for (const { show } of this.#waiters.get(id) ?? []) show(each)
      }
    } catch (error) {
      if (!this.#isClosed) events.emit('wait.failed', { error })
    }
  }
}

function closed(): SandmanError {
  return new SandmanError(
    'fleet_closed',
    'The fleet was closed. What it had been asked for is carried out all the same.',
  )
}
