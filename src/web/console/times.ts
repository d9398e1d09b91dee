import { html } from 'hono/html'
import { age, when } from '../../fleet/words.ts'
import type { Html, View } from './view.ts'

/** How long ago, or how long until. */
export function ageOf({ now }: View, at: Date): Html {
  return html`<time data-age datetime="${at.toISOString()}" title="${when(at)}">${age(Math.abs(now.getTime() - at.getTime()))}</time>`
}

/** To the second; all times are of the same zone, which is said in the footer. */
export function moment(at: Date): Html {
  return html`<time datetime="${at.toISOString()}">${when(at).replace('Z', '')}</time>`
}

/** A span that was measured. */
export function span(ms: number): string {
  if (ms < 1_000) return `${Math.round(ms)} ms`
  if (ms < 60_000) return `${(ms / 1_000).toFixed(1)} s`
  if (ms < 3_600_000) return `${Math.floor(ms / 60_000)} min ${Math.round((ms % 60_000) / 1_000)} s`
  return age(ms)
}

export function number(count: number): string {
  return count.toLocaleString('en-US')
}
