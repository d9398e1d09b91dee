import { html } from 'hono/html'
import type { Page, Sandbox } from '../../fleet/views.ts'
import { IN_FLIGHT_STATES, SETTLED_STATES } from '../../sandbox/states.ts'
import { stateBadge } from './badges.ts'
import { chips } from './facts.ts'
import { layout } from './layout.ts'
import { liveOf } from './live-path.ts'
import { type Place, placeAfter, placeBefore } from './paging.ts'
import { idLink, shown } from './shown.ts'
import { ageOf } from './times.ts'
import { type Html, type View, withQuery } from './view.ts'

export const PAGE_SIZE = 50

/** What is looked for, as it stands in the address of the page. */
type Filters = { id: string; state: string; backend: string; metadata: string }

export function filtersIn(query: (name: string) => string | undefined): Filters {
  return {
    id: query('id')?.trim() ?? '',
    state: query('state')?.trim() ?? '',
    backend: query('backend')?.trim() ?? '',
    metadata: query('metadata')?.trim() ?? '',
  }
}

type Parts = {
  filters: Filters
  place: Place
  page: Page<Sandbox>
  backends: readonly string[]
  /** What is wrong with what is looked for. */
  problem?: string
}

/** All sandboxes, the newest first, a page at a time. */
export function listPage(view: View, { filters, place, page, backends, problem }: Parts): Html {
  const { items, nextCursor } = page
  const isFiltered = Boolean(filters.id || filters.state || filters.backend || filters.metadata)
  const at = (to: Place | undefined) => view.at(withQuery('/sandboxes', { ...filters, ...to }))
  return layout(view, {
    title: 'Sandboxes',
    place: 'sandboxes',
    stream: liveOf({ sandboxIds: items.map(({ id }) => id), newest: place.cursor === undefined }),
    content: html`
      <div class="head"><h1>Sandboxes</h1>
        ${view.mayOperate && html`<a class="button first end" href="${view.at('/sandboxes/new')}">New sandbox</a>`}</div>
      ${filterForm(view, filters, backends)}
      ${problem && html`<p class="note bad" role="alert"><b>Not found like this.</b> ${shown(problem)}</p>`}
      <div id="list" data-live>
        ${items.length > 0 ? table(view, items) : html`<div class="card"><p class="none">${nothing(isFiltered, nextCursor)}</p></div>`}
      </div>
      <nav class="pager" id="pager" data-live aria-label="Pages">
        ${place.cursor ? html`<span class="row"><a class="button" rel="prev" href="${at(placeBefore(place))}">← Newer</a> <a href="${at(undefined)}">Newest</a></span>` : html`<span></span>`}
        ${nextCursor && html`<a class="button" rel="next" href="${at(placeAfter(place, nextCursor))}">Older →</a>`}
      </nav>`,
  })
}

function nothing(isFiltered: boolean, nextCursor: string | null): string {
  if (nextCursor) return 'None among those that were looked through; the search goes on with the older ones.'
  return isFiltered ? 'No sandbox is like this.' : 'There are no sandboxes yet.'
}

function filterForm(view: View, filters: Filters, backends: readonly string[]): Html {
  const options = (names: readonly string[], chosen: string | undefined) =>
    names.map((name) => html`<option value="${name}"${name === chosen ? html` selected` : ''}>${shown(name)}</option>`)
  // A backend that is not known here can still have sandboxes.
  const known = filters.backend && !backends.includes(filters.backend) ? [...backends, filters.backend] : backends
  return html`<form class="filters" method="get" action="${view.at('/sandboxes')}" aria-label="Filter">
    <div><label for="state">State</label><select id="state" name="state"><option value="">any</option>
      <optgroup label="at rest">${options(SETTLED_STATES, filters.state)}</optgroup>
      <optgroup label="in flight">${options(IN_FLIGHT_STATES, filters.state)}</optgroup></select></div>
    <div><label for="backend">Backend</label><select id="backend" name="backend"><option value="">any</option>${options(known, filters.backend)}</select></div>
    <div class="wide"><label for="metadata">Metadata</label><input id="metadata" name="metadata" class="mono" value="${filters.metadata}" placeholder="key=value" autocomplete="off" spellcheck="false" maxlength="520"></div>
    <div class="wide"><label for="id">Id, or how it begins</label><input id="id" name="id" class="mono" value="${filters.id}" placeholder="sbx_…" autocomplete="off" spellcheck="false" maxlength="64"></div>
    <button>Filter</button>
    ${Object.values(filters).some(Boolean) && html`<a class="button" href="${view.at('/sandboxes')}">Clear</a>`}
  </form>`
}

const COLUMNS = ['Sandbox', 'State', 'Backend', 'For', 'Active', 'Metadata', 'Operation'] as const

function table(view: View, sandboxes: Sandbox[]): Html {
  return html`<div class="card"><table class="cards" role="table">
    <caption class="vh">Sandboxes, the newest first</caption>
    <thead role="rowgroup"><tr role="row">${COLUMNS.map((name) => html`<th scope="col" role="columnheader">${name}</th>`)}</tr></thead>
    <tbody role="rowgroup">${sandboxes.map((sandbox) => row(view, sandbox))}</tbody>
  </table></div>`
}

function row(view: View, sandbox: Sandbox): Html {
  const { id, backend, stateChangedAt, lastActiveAt, metadata, operationId } = sandbox
  return html`<tr role="row" id="row-${id}">
    <th scope="row" role="rowheader">${idLink(view, id)}</th>
    <td role="cell">${stateBadge(sandbox)}</td>
    <td role="cell" data-label="on">${shown(backend)}</td>
    <td role="cell" data-label="for" class="nowrap">${ageOf(view, stateChangedAt)}</td>
    <td role="cell" data-label="active" class="nowrap muted">${ageOf(view, lastActiveAt)} ago</td>
    <td role="cell" class="all">${Object.keys(metadata).length > 0 && chips(metadata, 3)}</td>
    <td role="cell" class="all">${operationId && idLink(view, operationId)}</td>
  </tr>`
}
