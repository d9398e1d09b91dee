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
  if (ms < 999.5) return `${Math.round(ms)} ms`
  if (ms < 59_950) return `${(ms / 1_000).toFixed(1)} s`
  const seconds = Math.round(ms / 1_000)
  if (seconds < 3_600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`
  return age(ms)
}

export function number(count: number): string {
  return count.toLocaleString('en-US')
}
