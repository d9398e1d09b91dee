import { setTimeout as sleep } from 'node:timers/promises'
import type { Call } from '../backend.ts'
import type { Api } from './api.ts'
import { isTooOld, Refusal, Unreadable } from './errors.ts'
import { type Pod, podOf, type WirePod } from './pod.ts'

/** An API server ends a watch when it was asked to. One that has ended costs a request; one that hangs is found out by this. */
const WATCH_SECONDS = 60
/** One that has not ended by then, and says nothing, is dead. */
const SILENT_MS_MAX = 75_000
const PAGE = 500
const PAUSE_MS = [250, 15_000] as const
/** One that ends sooner, and whoever is on the way may end them at once, is not begun again without a pause. */
const SHORT_MS = 5_000
/** Events are lines, and none is longer than an object may be. */
const LINE_BYTES_MAX = 8 * 1024 * 1024

type Event = { type?: string; object?: WirePod & { code?: number; message?: string } }
type PodList = { kind?: string; metadata?: { resourceVersion?: string; continue?: string }; items?: WirePod[] }

/**
 * What the API server tells by itself of all pods of a fleet, so that nobody has to ask for each of them again and again: listed once,
 * and then watched. It begins when somebody asks for the first time.
 *
 * What it says is what was true a moment ago. Whoever decides something by it asks the API server first.
 */
export class PodWatch {
  readonly #api: Api
  readonly #path: string
  readonly #selector: string
  readonly #pods = new Map<string, Pod>()
  readonly #waiting = new Map<string, Set<() => void>>()
  readonly #ending = new AbortController()
  #watching: Promise<void> | undefined
  /** When it was last certain that a watch would have told of a change. */
  #heardAtMs = Number.NEGATIVE_INFINITY
  #isOpen = false
  #version = ''

  constructor(api: Api, namespace: string, selector: string) {
    this.#api = api
    this.#path = `/api/v1/namespaces/${namespace}/pods`
    this.#selector = selector
  }

  /** As it was told of last; undefined where nothing is known, or nobody would have told of a change. */
  get(name: string): Pod | undefined {
    this.#begin()
    const isFresh = this.#isOpen && performance.now() - this.#heardAtMs < SILENT_MS_MAX
    return isFresh ? this.#pods.get(name) : undefined
  }

  /** How many pods it knows of. */
  get size(): number {
    return this.#pods.size
  }

  /** Returns when something was told of this pod, or after a while. Then it has to be looked at. */
  async change(name: string, withinMs: number, { signal }: Call): Promise<void> {
    this.#begin()
    signal.throwIfAborted()
    const { promise, resolve } = Promise.withResolvers<void>()
    const wake = () => resolve()
    const waiting = this.#waiting.get(name) ?? new Set()
    this.#waiting.set(name, waiting.add(wake))
    const timer = setTimeout(wake, withinMs)
    signal.addEventListener('abort', wake)
    await promise
    clearTimeout(timer)
    signal.removeEventListener('abort', wake)
    waiting.delete(wake)
    if (waiting.size === 0) this.#waiting.delete(name)
    signal.throwIfAborted()
  }

  async close(): Promise<void> {
    this.#ending.abort()
    await this.#watching
  }

  #begin(): void {
    this.#watching ??= this.#watch()
  }

  /** Never fails: whatever goes wrong is tried again, with a pause that grows. */
  async #watch(): Promise<void> {
    const { signal } = this.#ending
    const [firstMs, mostMs] = PAUSE_MS
    let pauseMs: number = firstMs
    while (!signal.aborted) {
      try {
        if (this.#version === '') await this.#list()
        const beganAtMs = performance.now()
        await this.#follow()
        if (performance.now() - beganAtMs >= SHORT_MS) {
          pauseMs = firstMs
          continue
        }
      } catch (error) {
        // What it knew is too old to go on from.
        if (isTooOld(error)) this.#version = ''
        if (isTooOld(error) && pauseMs === firstMs) {
          pauseMs *= 2
          continue
        }
      }
      await sleep(pauseMs, undefined, { signal }).catch(() => {})
      pauseMs = Math.min(pauseMs * 2, mostMs)
    }
  }

  async #list(): Promise<void> {
    const call = { signal: AbortSignal.any([this.#ending.signal, AbortSignal.timeout(SILENT_MS_MAX)]) }
    const seen = new Set<string>()
    let version = ''
    for (let next: string | undefined = ''; next !== undefined; ) {
      const query = { labelSelector: this.#selector, limit: PAGE, continue: next || undefined }
      const page: PodList = await this.#api.json({ path: this.#path, query }, call)
      if (page.kind !== 'PodList' || !page.items || !page.metadata?.resourceVersion)
        throw new Unreadable(`GET ${this.#path}`, JSON.stringify(page))
      for (const item of page.items) seen.add(this.#note(item).name)
      version = page.metadata.resourceVersion
      next = page.metadata.continue || undefined
    }
    for (const name of this.#pods.keys()) if (!seen.has(name)) this.#forget(name)
    this.#version = version
  }

  async #follow(): Promise<void> {
    const late = new AbortController()
    const call = { signal: AbortSignal.any([this.#ending.signal, late.signal]) }
    const timer = setTimeout(() => late.abort(new Error('a watch was silent')), SILENT_MS_MAX)
    const query = {
      watch: true,
      labelSelector: this.#selector,
      resourceVersion: this.#version,
      allowWatchBookmarks: true,
      timeoutSeconds: WATCH_SECONDS,
    }
    try {
      const events = await this.#api.stream({ path: this.#path, query }, call)
      if (!events.headers['content-type']?.startsWith('application/json')) {
        events.destroy()
        throw new Unreadable(`GET ${this.#path}`, `it is ${events.headers['content-type']}`)
      }
      this.#isOpen = true
      this.#heardAtMs = performance.now()
      for await (const line of linesOf(events)) {
        timer.refresh()
        this.#heardAtMs = performance.now()
        this.#hear(line)
      }
    } finally {
      this.#isOpen = false
      clearTimeout(timer)
    }
  }

  #hear(line: string): void {
    const { type, object } = JSON.parse(line) as Event
    if (!object) throw new Unreadable('a watch', line)
    if (type === 'ERROR') throw new Refusal('a watch', object.code ?? 0, JSON.stringify(object))
    const { resourceVersion } = object.metadata ?? {}
    if (!resourceVersion) throw new Unreadable('a watch', line)
    if (type === 'DELETED') this.#forget(object.metadata?.name ?? '')
    else if (type === 'ADDED' || type === 'MODIFIED') this.#note(object)
    this.#version = resourceVersion
  }

  #note(object: WirePod): Pod {
    const pod = podOf(object)
    this.#pods.set(pod.name, pod)
    this.#tell(pod.name)
    return pod
  }

  #forget(name: string): void {
    this.#pods.delete(name)
    this.#tell(name)
  }

  #tell(name: string): void {
    for (const wake of this.#waiting.get(name) ?? []) wake()
  }
}

/** Lines, cut anywhere. What is left behind the last one was cut off, and is no event. */
async function* linesOf(pieces: AsyncIterable<Buffer>): AsyncGenerator<string> {
  let rest: Buffer = Buffer.alloc(0)
  for await (const piece of pieces) {
    rest = rest.length === 0 ? piece : Buffer.concat([rest, piece])
    for (let end = rest.indexOf('\n'); end !== -1; end = rest.indexOf('\n')) {
      if (end > 0) yield rest.toString('utf8', 0, end)
      rest = rest.subarray(end + 1)
    }
    if (rest.length > LINE_BYTES_MAX) throw new Unreadable('a watch', 'a line that does not end')
  }
}
