import type { Fleet } from '../../fleet/fleet.ts'
import type { Method, Need, Routes, WebContext } from '../routes.ts'
import { failurePage } from './failure-page.ts'
import { type Html, type View, viewOf } from './view.ts'

type Answer = Html | Response

/** Adds routes that answer with pages, also when something is not there or cannot be read. */
export class Pages {
  readonly #routes: Routes
  readonly #fleet: Fleet

  constructor(routes: Routes, fleet: Fleet) {
    this.#routes = routes
    this.#fleet = fleet
  }

  get(path: string, need: Need, make: (c: WebContext, view: View) => Promise<Answer>): void {
    this.#add('GET', path, need, make)
  }

  /** What a form is sent to. It answers with where to go on, so that nothing is sent twice by looking again. */
  post(path: string, make: (c: WebContext, view: View) => Promise<Answer>): void {
    this.#add('POST', path, 'operate', make)
  }

  #add(method: Method, path: string, need: Need, make: (c: WebContext, view: View) => Promise<Answer>): void {
    this.#routes.add(method, path, need, async (c) => {
      const view = viewOf(c, this.#fleet)
      try {
        const made = await make(c, view)
        return made instanceof Response ? made : c.html(made)
      } catch (error) {
        const failure = failurePage(view, error)
        if (failure) return c.html(failure.page, failure.status)
        throw error
      }
    })
  }
}
