import { html } from 'hono/html'
import type { AtRisk, Failing, Overview, Stuck } from '../../fleet/overview.ts'
import { capital, inWords } from '../../fleet/words.ts'
import { FAILURES } from '../../sandbox/failures.ts'
import { badge, type Tone } from './badges.ts'
import { idLink, linked, shown } from './shown.ts'
import { ageOf, number } from './times.ts'
import type { Html, View } from './view.ts'

/** What needs somebody: what is stuck, at risk or failing, each with why, and a link to it. */
export function attention(view: View, { stuck, stuckCount, atRisk, failing }: Overview): Html {
  const lists = [
    list(
      'Stuck',
      'worked on, or waited for, longer than any should be',
      stuck.map((each) => stuckRow(view, each)),
      stuckCount,
    ),
    list(
      'At risk',
      'may be lost soon',
      atRisk.map((each) => riskRow(view, each)),
    ),
    list(
      'Failing',
      'the latest operations that failed',
      failing.map((each) => failingRow(view, each)),
    ),
  ]
  const isCalm = stuck.length + atRisk.length + failing.length === 0
  return html`<div id="attention" data-live>${
    isCalm ? html`<p class="note good">${badge('good', 'calm')} Nothing is stuck, at risk or failing.</p>` : lists
  }</div>`
}

/** The first of them at once; the others are one click away. */
const SHOWN_AT_FIRST = 4

function list(title: string, says: string, rows: Html[], count = rows.length): Html | '' {
  if (rows.length === 0) return ''
  const id = `attention-${title.replace(' ', '-').toLowerCase()}`
  const more = rows.slice(SHOWN_AT_FIRST)
  return html`<section class="card" data-key="${id}" aria-labelledby="${id}">
    <header><h2 id="${id}">${title} <span class="number muted">${number(count)}</span></h2><span class="small muted">${says}</span></header>
    <ul class="list lines">${rows.slice(0, SHOWN_AT_FIRST)}</ul>
    ${more.length > 0 && html`<details><summary>${more.length} more</summary><ul class="list lines">${more}</ul></details>`}
  </section>`
}

function row(
  view: View,
  tone: Tone,
  what: string,
  { sandboxId, backend }: { sandboxId: string; backend: string },
  at: Date,
  key: string,
  text: Html,
): Html {
  return html`<li data-key="${key}">${badge(tone, what)}
    <span>${idLink(view, sandboxId)} <span class="muted small">${shown(backend)}</span></span>
    <span class="small muted">${ageOf(view, at)}</span>
    <span class="what">${text}</span></li>`
}

function stuckRow(view: View, each: Stuck): Html {
  const { kind, attempt, lastError, operationId, since, state } = each
  const why = lastError
    ? html`${inWords(lastError.errorType)}: ${linked(view, lastError.message, 300)}`
    : attempt === 0
      ? 'no worker that takes its queue and has its backend has come.'
      : 'no attempt has said why.'
  const text = html`${idLink(view, operationId)} is ${attempt === 0 ? 'not begun' : `at attempt ${attempt}`}, and the sandbox is ${state}: ${why}`
  return row(view, 'busy', kind, each, since, operationId, text)
}

function riskRow(view: View, each: AtRisk): Html {
  return row(
    view,
    'bad',
    inWords(each.why),
    each,
    each.at,
    `${each.why}-${each.sandboxId}`,
    html`${linked(view, each.text, 400)}`,
  )
}

function failingRow(view: View, each: Failing): Html {
  const { error, kind, operationId, at } = each
  const text = html`${idLink(view, operationId)}: ${linked(view, error.message, 300)} <b>${capital(FAILURES[error.errorType].app)}.</b>`
  return row(view, 'bad', `${kind}: ${inWords(error.errorType)}`, each, at, operationId, text)
}
