import { html } from 'hono/html'
import type { SandboxEvent } from '../../fleet/views.ts'
import type { Why } from '../../fleet/why.ts'
import { inWords } from '../../fleet/words.ts'
import { shape, type Tone, toneOfState } from './badges.ts'
import { linked, shown } from './shown.ts'
import { ageOf, moment } from './times.ts'
import type { Html, View } from './view.ts'

/** As many as are read at once. The story itself may have more, which are one click away. */
const SHOWN_AT_FIRST = 60

/** How a sandbox got where it is: states, operations, executions, checkpoints and what was seen, the newest first. */
export function timeline(view: View, { story, isComplete }: Why, all: boolean): Html {
  const newestFirst = story.toReversed()
  const lines = all ? newestFirst : newestFirst.slice(0, SHOWN_AT_FIRST)
  const rest = newestFirst.length - lines.length
  return html`<section class="card" id="timeline" data-live aria-labelledby="timeline-h">
    <header><h2 id="timeline-h">Timeline</h2><span class="small muted">the newest first</span></header>
    ${lines.length === 0 ? html`<p class="none">Nothing is kept of its history.</p>` : html`<ol class="timeline">${lines.map((line) => entry(view, line))}</ol>`}
    ${rest > 0 && html`<p class="none"><a href="?story=all#timeline">Show ${rest} older</a></p>`}
    ${!isComplete && rest === 0 && html`<p class="none">Not all of its history is told here: the rest is not kept, or is too much.</p>`}
  </section>`
}

function entry(view: View, { at, text, event }: Why['story'][number]): Html {
  const tone = toneOf(event)
  const key = event ? `event-${event.id}` : `now-${at.getTime()}`
  return html`<li class="${tone}" data-key="${key}">
    ${shape(tone, 'mark')}
    <p class="when">${moment(at)}<span>${ageOf(view, at)} ago</span><b>${event?.to ?? (event ? inWords(event.type) : 'now')}</b></p>
    <p>${linked(view, text, 6_000)}</p>
    ${event && Object.keys(event.detail).length > 0 && evidence(event)}
  </li>`
}

/** As it was written down, for whoever has to be sure. */
function evidence({ detail }: SandboxEvent): Html {
  return html`<details><summary>Evidence</summary><pre class="code" tabindex="0">${shown(JSON.stringify(detail, null, 2), 20_000)}</pre></details>`
}

function toneOf(event: SandboxEvent | undefined): Tone {
  if (!event) return 'busy'
  const { status, error } = event.detail
  if (error || status === 'failed' || event.type.endsWith('_lost') || event.type.endsWith('_failed')) return 'bad'
  if (event.to) return toneOfState(event.to)
  return event.type === 'execution_started' ? 'good' : 'over'
}
