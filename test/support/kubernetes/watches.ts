import type { ServerResponse } from 'node:http'
import { type ApiError, badRequest, expired } from './api-error.ts'
import { fullJson } from './json.ts'
import type { KubeObject } from './objects.ts'
import { apiVersionOf } from './resources.ts'
import { type Selector, selectorOf } from './selectors.ts'
import type { Change, Store } from './store.ts'
import { shown, type Target } from './target.ts'

/** What may happen to the watches that are open. */
export type WatchDrop =
  /** It ends as if its time were up. */
  | 'fin'
  | 'reset'
  /** Nothing comes any more, and it stays open. */
  | 'silence'
  /** A line that is no JSON; then it goes on. */
  | 'garbage'
  /** What was asked for is forgotten. */
  | '410'
  /** It ends in the middle of a line. */
  | 'half'

const TIMEOUT_MS = 45 * 60_000

/** Whoever watches, and what is told to them. */
export class Watches {
  readonly #store: Store
  readonly #open = new Set<Watch>()
  readonly #bookmarks: NodeJS.Timeout

  constructor(store: Store, bookmarkEveryMs: number) {
    this.#store = store
    this.#bookmarks = setInterval(() => this.bookmark(), bookmarkEveryMs).unref()
    store.onChange((change) => {
      for (const watch of this.#open) watch.tell(change)
    })
  }

  get count(): number {
    return this.#open.size
  }

  /** Throws only where it is refused as a whole. */
  begin(target: Target, query: URLSearchParams, goneAs: 'event' | 'http'): (response: ServerResponse) => void {
    const isSelected = selectorOf(query) ?? (() => true)
    const asked = query.get('resourceVersion') ?? ''
    if (!/^\d*$/.test(asked))
      throw badRequest(`Invalid value: "${asked}": strconv.ParseUint: parsing "${asked}": invalid syntax`)
    const from = Number(asked || 0)
    const past = from === 0 ? [] : this.#store.since(target.resource.id, from)
    const gone = expired(from, this.#store.oldest)
    if (!past && goneAs === 'http') throw gone
    return (response) => {
      const watch = new Watch(target, isSelected, query.get('allowWatchBookmarks') === 'true', response)
      if (!past) return watch.fail(gone)
      response.cork()
      if (from === 0) for (const object of this.#store.list(target.resource.id, target.namespace)) watch.show(object)
      if (query.get('sendInitialEvents') === 'true') watch.bookmark(this.#store.version, true)
      for (const change of past) watch.tell(change)
      response.uncork()
      this.#open.add(watch)
      const seconds = Number(query.get('timeoutSeconds') ?? 0)
      const end = () => {
        this.#open.delete(watch)
        response.end()
      }
      const timer = setTimeout(end, seconds > 0 ? seconds * 1000 : TIMEOUT_MS).unref()
      response.on('close', () => {
        clearTimeout(timer)
        this.#open.delete(watch)
      })
    }
  }

  bookmark(): void {
    for (const watch of this.#open) if (watch.wantsBookmarks) watch.bookmark(this.#store.version, false)
  }

  drop(how: WatchDrop): void {
    for (const watch of this.#open) {
      if (how === 'garbage') watch.write('{"type":"MODIFIED","obj\n')
      else {
        this.#open.delete(watch)
        if (how === '410') watch.fail(expired(this.#store.version, this.#store.version))
        else watch.end(how)
      }
    }
  }

  stop(): void {
    clearInterval(this.#bookmarks)
  }
}

class Watch {
  readonly wantsBookmarks: boolean
  readonly #target: Target
  readonly #isSelected: Selector
  readonly #response: ServerResponse

  constructor(target: Target, isSelected: Selector, wantsBookmarks: boolean, response: ServerResponse) {
    this.#target = target
    this.#isSelected = isSelected
    this.wantsBookmarks = wantsBookmarks
    this.#response = response
    response.writeHead(200, { 'content-type': 'application/json' })
    response.flushHeaders()
  }

  show(object: KubeObject): void {
    if (this.#isSelected(object)) this.#send('ADDED', object)
  }

  /** What leaves the selection is deleted for who watches, and what enters it is new. */
  tell({ type, resource, object, before, version }: Change): void {
    const { namespace } = this.#target
    if (resource !== this.#target.resource.id) return
    if (namespace !== undefined && object.metadata.namespace !== namespace) return
    const was = before !== undefined && this.#isSelected(before)
    const is = type !== 'DELETED' && this.#isSelected(object)
    if (is) this.#send(was ? 'MODIFIED' : 'ADDED', object)
    else if (was) {
      const last = type === 'DELETED' ? object : before
      this.#send('DELETED', { ...last, metadata: { ...last.metadata, resourceVersion: String(version) } })
    }
  }

  bookmark(version: number, isEndOfInitial: boolean): void {
    const { resource } = this.#target
    const object = {
      kind: resource.kind,
      apiVersion: apiVersionOf(resource, this.#target.version),
      metadata: {
        resourceVersion: String(version),
        creationTimestamp: null,
        ...(isEndOfInitial && { annotations: { 'k8s.io/initial-events-end': 'true' } }),
      },
    }
    this.write(`${JSON.stringify({ type: 'BOOKMARK', object })}\n`)
  }

  fail(error: ApiError): void {
    this.write(`${JSON.stringify({ type: 'ERROR', object: error.status })}\n`)
    this.#response.end()
  }

  end(how: 'fin' | 'reset' | 'silence' | 'half'): void {
    if (how === 'half') this.#response.write('{"type":"MODIFIED","object":{"kind":"Po')
    if (how === 'fin' || how === 'half') this.#response.end()
    if (how === 'reset') this.#response.socket?.resetAndDestroy()
  }

  write(line: string): void {
    this.#response.write(line)
  }

  #send(type: string, object: KubeObject): void {
    this.write(`{"type":"${type}","object":${fullJson(shown(this.#target, object))}}\n`)
  }
}
