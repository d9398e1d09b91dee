import { html } from 'hono/html'
import { when } from '../../fleet/words.ts'
import type { Html, View } from './view.ts'

/** As short as it can be read; `console.js` goes on counting in the same words. */
export function age(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1_000))
  if (seconds < 60) return `${seconds}s`
  if (seconds < 3_600) return `${Math.floor(seconds / 60)}m`
  if (seconds < 86_400) return `${Math.floor(seconds / 3_600)}h`
  return `${Math.floor(seconds / 86_400)}d`
}

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

export function bytes(count: number): string {
  const unit = ['B', 'KB', 'MB', 'GB', 'TB']
  let size = count
  let nth = 0
  while (size >= 1_000 && nth < unit.length - 1) {
    size /= 1_000
    nth++
  }
  return `${nth === 0 ? size : size.toFixed(size < 10 ? 1 : 0)} ${unit[nth]}`
}

export function number(count: number): string {
  return count.toLocaleString('en-US')
}
