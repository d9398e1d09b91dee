import { randomUUID } from 'node:crypto'
import { badRequest, expiredContinue } from './api-error.ts'
import { bareJson, fullJson } from './json.ts'
import type { KubeObject } from './objects.ts'
import { apiVersionOf } from './resources.ts'
import { selectorOf } from './selectors.ts'
import type { Store } from './store.ts'
import { shown, type Target } from './target.ts'

type Rest = { version: number; items: KubeObject[] }
const RESTS_MAX = 100

/** Lists, whole or page by page. The pages of one list show what there was when it was begun. */
export class Lists {
  readonly #store: Store
  readonly #rests = new Map<string, Rest>()

  constructor(store: Store) {
    this.#store = store
  }

  /** From now on every list has to be begun anew. */
  expireContinues(): void {
    this.#rests.clear()
  }

  /** As text: a list of ten thousand is put together from what is written down already. */
  page(target: Target, query: URLSearchParams): string {
    const limit = Number(query.get('limit') ?? 0)
    const { version, items } = this.#begun(target, query)
    const shownItems = limit > 0 ? items.slice(0, limit) : items
    const remaining = items.slice(shownItems.length)
    const isSelective = selectorOf(query) !== undefined
    const metadata = {
      resourceVersion: String(version),
      ...(remaining.length > 0 && { continue: this.#keep({ version, items: remaining }) }),
      // It is not counted where something is selected.
      ...(remaining.length > 0 && !isSelective && { remainingItemCount: remaining.length }),
    }
    const { resource } = target
    const write = resource.isBuiltIn ? bareJson : fullJson
    const head = { kind: `${resource.kind}List`, apiVersion: apiVersionOf(resource, target.version), metadata }
    const body = shownItems.map((object) => write(shown(target, object))).join(',')
    return `${JSON.stringify(head).slice(0, -1)},"items":[${body}]}`
  }

  #begun({ resource, namespace }: Target, query: URLSearchParams): Rest {
    const token = query.get('continue')
    if (token) {
      if (!/^[\w-]+$/.test(token)) throw badRequest('continue key is not valid: illegal base64 data at input byte 0')
      const rest = this.#rests.get(token)
      if (!rest || rest.version < this.#store.oldest) throw expiredContinue()
      return rest
    }
    const isSelected = selectorOf(query)
    const all = this.#store.list(resource.id, namespace)
    return { version: this.#store.version, items: isSelected ? all.filter(isSelected) : all }
  }

  #keep(rest: Rest): string {
    const token = randomUUID()
    this.#rests.set(token, rest)
    for (const oldest of this.#rests.keys()) {
      if (this.#rests.size <= RESTS_MAX) break
      this.#rests.delete(oldest)
    }
    return token
  }
}
