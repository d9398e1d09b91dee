import { html } from 'hono/html'
import type { Trend } from '../../fleet/overview.ts'
import { number, span } from './times.ts'
import type { Html } from './view.ts'

const WIDTH = 200
const HEIGHT = 38

/**
 * One number over time, as a line; and in words, for who does not see it. What can be counted is added up; a time or a
 * share cannot be, and is told as it was most recently.
 */
export function spark({ name, unit, everyMs, values }: Trend): Html {
  const known = values.filter((value) => value !== null)
  const last = known.at(-1)
  const [lowest, highest] = [Math.min(...known), Math.max(...known)]
  const over = `${Math.round((everyMs * values.length) / 3_600_000)} h`
  const every = `${Math.round(everyMs / 60_000)} min`
  const range = `${say(lowest, unit)} to ${say(highest, unit)}`
  const isCount = unit === 'count'
  const total = known.reduce((sum, value) => sum + value, 0)
  const told = isCount
    ? `${name}: ${say(total, unit)} over the last ${over}, ${range} in each ${every}.`
    : `${name}: most recently ${last !== undefined && say(last, unit)}, ${range} over the last ${over}.`
  return html`<figure class="trend">
    <figcaption><span>${name}</span>${
      last === undefined
        ? html`<b>none</b>`
        : isCount
          ? html`<b>${say(total, unit)}</b><span>${range} per ${every}</span>`
          : html`<b>${say(last, unit)} <small>latest</small></b><span>${range}</span>`
    }</figcaption>
    <svg class="spark" viewBox="0 0 ${WIDTH} ${HEIGHT}" preserveAspectRatio="none" role="img" aria-label="${last === undefined ? `${name}: nothing is known of the last ${over}.` : told}">
      ${last !== undefined && curve(values, unit === 'percent' ? [0, 100] : [0, highest])}
    </svg>
  </figure>`
}

function say(value: number, unit: Trend['unit']): string {
  if (unit === 'ms') return span(value)
  return unit === 'percent' ? `${Math.round(value)} %` : number(value)
}

/** A line with gaps where nothing is known, on a ground of its own colour. */
function curve(values: Trend['values'], [from, to]: [number, number]): Html {
  const x = (nth: number) => round((nth / Math.max(1, values.length - 1)) * WIDTH)
  const y = (value: number) => round(HEIGHT - 2 - ((value - from) / (to - from || 1)) * (HEIGHT - 4))
  const runs: string[][] = [[]]
  for (const [nth, value] of values.entries()) {
    if (value === null) runs.push([])
    else runs.at(-1)?.push(`${x(nth)} ${y(value)}`)
  }
  return html`<line x1="0" x2="${WIDTH}" y1="${HEIGHT - 1}" y2="${HEIGHT - 1}" stroke="currentColor" stroke-opacity=".25" vector-effect="non-scaling-stroke"/>${runs
    .filter((run) => run.length > 0)
    .map((run) => {
      const [first, last] = [run[0]?.split(' ')[0], run.at(-1)?.split(' ')[0]]
      // A single point would be no line at all.
      const line = run.length === 1 ? `${run[0]} h.01` : run.join(' L')
      return html`<path d="M${first} ${HEIGHT} L${run.join(' L')} L${last} ${HEIGHT} Z" fill="currentColor" fill-opacity=".1"/>
        <path d="M${line}" fill="none" stroke="currentColor" stroke-width="1.6" stroke-linejoin="round" stroke-linecap="round" vector-effect="non-scaling-stroke"/>`
    })}`
}

function round(value: number): number {
  return Math.round(value * 10) / 10
}

/** A part of a whole. */
export function bar(percent: number, tone: 'good' | 'busy' | 'bad'): Html {
  return html`<svg class="bar ${tone}" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true"><rect class="all" width="100" height="8"/><rect class="part" width="${round(percent)}" height="8"/></svg>`
}
