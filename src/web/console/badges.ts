import { html } from 'hono/html'
import type { Execution, Operation, Sandbox } from '../../fleet/views.ts'
import { inWords } from '../../fleet/words.ts'
import { isSettled, type State } from '../../sandbox/states.ts'
import type { Html } from './view.ts'

export type Tone = 'good' | 'sleep' | 'busy' | 'bad' | 'over'

/** Each tone has a shape of its own, so that it is told without its colour. */
const SHAPES: Record<Tone, Html> = {
  good: html`<circle cx="5" cy="5" r="5" fill="currentColor"/>`,
  sleep: html`<path d="M8.9 6.6A4.2 4.2 0 0 1 3.6 1 4.6 4.6 0 1 0 8.9 6.6Z" fill="currentColor"/>`,
  busy: html`<path d="M5 .4 9.6 5 5 9.6.4 5Z" fill="currentColor"/>`,
  bad: html`<path d="M5 .2 10 9.6H0Z" fill="currentColor"/>`,
  over: html`<circle cx="5" cy="5" r="4" fill="none" stroke="currentColor" stroke-width="2"/>`,
}

export function shape(tone: Tone, name = ''): Html {
  return html`<svg class="${name}" viewBox="0 0 10 10" width="10" height="10" aria-hidden="true">${SHAPES[tone]}</svg>`
}

export function badge(tone: Tone, text: string, size = ''): Html {
  return html`<span class="badge ${tone} ${size}">${shape(tone)}${text}</span>`
}

export function toneOfState(state: State): Tone {
  if (!isSettled(state)) return 'busy'
  return ({ running: 'good', suspended: 'sleep', gone: 'over' } as const)[state]
}

export function stateBadge({ state, goneReason }: Pick<Sandbox, 'state' | 'goneReason'>, size = ''): Html {
  return badge(toneOfState(state), goneReason ? `gone: ${inWords(goneReason)}` : state, size)
}

const STATUS_TONES = {
  queued: 'busy',
  waiting: 'busy',
  active: 'busy',
  running: 'good',
  succeeded: 'over',
  failed: 'bad',
  refused: 'bad',
  cancelled: 'over',
} as const satisfies Record<Execution['status'] | Operation['status'], Tone>

function toneOfStatus(status: keyof typeof STATUS_TONES): Tone {
  return STATUS_TONES[status]
}

export function executionBadge({ status, reason }: Pick<Execution, 'status' | 'reason'>): Html {
  const because = reason && reason !== 'completed' && reason !== 'cancelled' ? `: ${reason}` : ''
  return badge(toneOfStatus(status), `${status}${because}`)
}

export function operationBadge(operation: Operation): Html {
  const { status, outcome, error } = operation
  const text = error ? `${status}: ${error.errorType}` : outcome && outcome !== 'done' ? inWords(outcome) : status
  return badge(toneOfStatus(status), text)
}
