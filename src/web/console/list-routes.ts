import { randomUUID } from 'node:crypto'
import { isSandmanError } from '../../errors.ts'
import type { Fleet } from '../../fleet/fleet.ts'
import { isIdOf } from '../../sandbox/ids.ts'
import type { State } from '../../sandbox/states.ts'
import { pairs, readForm } from './form.ts'
import { filtersIn, listPage, PAGE_SIZE } from './list.ts'
import { newPage, spawnRequest } from './new.ts'
import type { Pages } from './pages.ts'
import { placeIn } from './paging.ts'

/** The list of all sandboxes, and the form that adds to it. */
export function serveList(pages: Pages, fleet: Fleet): void {
  pages.get('/sandboxes', 'read', async (c, view) => {
    const query = (name: string) => c.req.query(name)
    const filters = filtersIn(query)
    const { id, state, backend, metadata } = filters
    const page = pageOf(id)
    if (page) return c.redirect(view.at(page))
    const place = placeIn(query)
    const shownBackends = fleet.backends.map(({ name }) => name)
    try {
      const found = await fleet.list({
        limit: PAGE_SIZE,
        // A word that is not known is refused by whoever reads the request.
        ...(state && { state: state as State }),
        ...(backend && { backend }),
        ...(id && { id }),
        ...(metadata && { metadata: pairs(metadata, 'metadata') }),
        ...(place.cursor && { cursor: place.cursor }),
      })
      return listPage(view, { filters, place, page: found, backends: shownBackends })
    } catch (error) {
      if (!isSandmanError(error, 'request_invalid')) throw error
      const nothing = { items: [], nextCursor: null }
      const page = listPage(view, { filters, place, page: nothing, backends: shownBackends, problem: error.message })
      return c.html(page, 422)
    }
  })

  pages.get('/sandboxes/new', 'operate', async (c, view) => {
    // No more than where it begins: what it runs is never written by a link that somebody was sent.
    const { backend = '', from = '' } = c.req.query()
    return newPage(view, { backends: fleet.backends, given: { backend, from }, key: randomUUID() })
  })

  pages.post('/sandboxes', async (c, view) => {
    const given = await readForm(c)
    try {
      const { sandbox, operation } = await fleet.spawn(spawnRequest(given))
      return c.redirect(view.at(`/sandboxes/${sandbox.id}?op=${operation.id}`), 303)
    } catch (error) {
      if (!isSandmanError(error, 'request_invalid') && !isSandmanError(error, 'backend_unknown')) throw error
      const page = newPage(view, { backends: fleet.backends, given, problem: error.message, key: randomUUID() })
      return c.html(page, 422)
    }
  })
}

/** Whoever pastes a whole id wants its page. */
function pageOf(id: string): string | undefined {
  if (isIdOf('sandbox', id)) return `/sandboxes/${id}`
  if (isIdOf('operation', id)) return `/operations/${id}`
  if (isIdOf('execution', id)) return `/executions/${id}`
  return undefined
}
