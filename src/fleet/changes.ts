import { findMarks } from '../db/changes.ts'
import type { Db } from '../db/pool.ts'
import { SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { keepDoing } from './timer.ts'

/** How often all that is watched is looked at. */
const LOOK_EVERY_MS = 1_000

type Deps = { db: Db; fleet: string; events: Events; lookEveryMs?: number }

export type Change = {
  /** Those of the watched ones that have changed. Of none of them, the first time: from now on, nothing is missed. */
  sandboxIds: string[]
  /** The fleet has a sandbox that it had not before. */
  isNewest: boolean
}

type Watcher = {
  readonly ids: ReadonlySet<string>
  readonly newest: boolean
  changed: Set<string>
  isNewest: boolean
  hasBegun: boolean
  wake: PromiseWithResolvers<void>
}

/** What the last look has shown. */
type Seen = { marks: ReadonlyMap<string, string>; newest: string | null | undefined }

/**
 * Tells who watches sandboxes which of them have changed. However many watch in a process, they share one statement a second,
 * and none is made while nobody does. Who is slow is told of several changes at once, and holds no more than the ids it watches.
 */
export class Changes {
  readonly #deps: Deps
  readonly #watchers = new Set<Watcher>()
  #looking: { stop(): Promise<void> } | undefined
  #isClosed = false

  constructor(deps: Deps) {
    this.#deps = deps
  }

  async *watch(
    { sandboxIds, newest }: { sandboxIds: readonly string[]; newest: boolean },
    signal: AbortSignal,
  ): AsyncGenerator<Change, void> {
    if (this.#isClosed) throw closed()
    const watcher: Watcher = {
      ids: new Set(sandboxIds),
      newest,
      changed: new Set(),
      isNewest: false,
      hasBegun: false,
      wake: Promise.withResolvers(),
    }
    const onAbort = () => watcher.wake.reject(signal.reason)
    signal.addEventListener('abort', onAbort)
    watcher.wake.promise.catch(() => {}) // it may be told so while it is busy elsewhere
    this.#enter(watcher)
    try {
      for (;;) {
        signal.throwIfAborted()
        await watcher.wake.promise
        const change = { sandboxIds: [...watcher.changed], isNewest: watcher.isNewest }
        watcher.changed.clear()
        watcher.isNewest = false
        watcher.wake = Promise.withResolvers()
        watcher.wake.promise.catch(() => {})
        yield change
      }
    } finally {
      signal.removeEventListener('abort', onAbort)
      await this.#leave(watcher)
    }
  }

  async close(): Promise<void> {
    this.#isClosed = true
    for (const { wake } of this.#watchers) wake.reject(closed())
    await this.#looking?.stop()
  }

  #enter(watcher: Watcher): void {
    this.#watchers.add(watcher)
    if (this.#looking) return
    // Its own: the answer to a look of those who were here before may still be on its way.
    const seen: Seen = { marks: new Map(), newest: undefined }
    this.#looking = keepDoing(() => this.#look(seen), this.#deps.lookEveryMs ?? LOOK_EVERY_MS)
  }

  async #leave(watcher: Watcher): Promise<void> {
    this.#watchers.delete(watcher)
    if (this.#watchers.size > 0) return
    const looking = this.#looking
    this.#looking = undefined
    await looking?.stop()
  }

  async #look(seen: Seen): Promise<void> {
    const { db, fleet, events } = this.#deps
    const watchers = [...this.#watchers]
    const ids = [...new Set(watchers.flatMap((watcher) => [...watcher.ids]))]
    try {
      const { marks, newest } = await findMarks(db, { fleet, ids })
      const changed = marks.filter(({ id, mark }) => (seen.marks.get(id) ?? mark) !== mark).map(({ id }) => id)
      const isNewest = seen.newest !== undefined && seen.newest !== newest
      seen.marks = new Map(marks.map(({ id, mark }) => [id, mark])) // of those whom nobody watches any more, nothing is kept
      seen.newest = newest
      for (const watcher of watchers) tell(watcher, changed, isNewest)
    } catch (error) {
      // The next look compares with the last one that was answered, so nothing is missed.
      if (!this.#isClosed) events.emit('wait.failed', { error })
    }
  }
}

function tell(watcher: Watcher, changed: readonly string[], isNewest: boolean): void {
  for (const id of changed) if (watcher.ids.has(id)) watcher.changed.add(id)
  watcher.isNewest ||= isNewest && watcher.newest
  if (watcher.changed.size > 0 || watcher.isNewest || !watcher.hasBegun) watcher.wake.resolve()
  watcher.hasBegun = true
}

function closed(): SandmanError {
  return new SandmanError('fleet_closed', 'The fleet was closed, and nobody looks for changes any more.')
}
