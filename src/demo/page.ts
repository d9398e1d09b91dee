import { html } from 'hono/html'
import { badge, shape, type Tone } from '../web/console/badges.ts'
import { layout } from '../web/console/layout.ts'
import { linked } from '../web/console/shown.ts'
import type { Html, View } from '../web/console/view.ts'
import { type Act, type Mark, type Show, SIDE_NAMES, SIDES, type Side, type Step } from './show.ts'

export const DEMO_PATH = '/demo'
export const LIVE_PATH = '/demo/live'

/** Each mark in a shape and, for who does not see it, in a word. */
const MARKS: Record<Mark, { tone: Tone; word: string }> = {
  did: { tone: 'over', word: '' },
  fault: { tone: 'busy', word: 'Fault: ' },
  good: { tone: 'good', word: 'Well: ' },
  bad: { tone: 'bad', word: 'Badly: ' },
}

const STATES: Record<Act['state'], { tone: Tone; word: string }> = {
  waiting: { tone: 'over', word: 'to come' },
  playing: { tone: 'busy', word: 'playing' },
  over: { tone: 'over', word: 'played' },
}

/** The same two columns as in the terminal, with links to the sandboxes that it is played with. */
export function demoPage(view: View, show: Show): Html {
  const played = show.acts.filter(({ state }) => state === 'over').length
  const lead = show.isOver
    ? show.wasAsExpected
      ? 'It is over: each of them happened to the usual code, and not to Sandman.'
      : 'It is over, and not everything went as it should have.'
    : `Played with real processes on this machine, in the fleet of this console. Over: ${played} of ${show.acts.length}.`
  return layout(view, {
    title: 'Demo',
    stream: LIVE_PATH,
    say: show.isOver ? lead : '',
    content: html`
      <div class="head"><h1>How sandboxes get lost</h1><span id="lead" data-live class="muted">${lead}</span></div>
      ${show.acts.map((act) => actCard(view, act))}`,
  })
}

function actCard(view: View, act: Act): Html {
  const { tone, word } = STATES[act.state]
  const name = `act-${act.letter}`
  return html`<section class="card" id="${name}" data-live aria-labelledby="${name}-h">
    <header><h2 id="${name}-h">${act.letter}. ${act.title}</h2><span class="end">${badge(tone, word)}</span></header>
    <div class="pad muted">${act.happened}</div>
    ${act.state !== 'waiting' && html`<div class="columns">${SIDES.map((side) => columnOf(view, act, side))}</div>`}
  </section>`
}

function columnOf(view: View, act: Act, side: Side): Html {
  const { steps, verdict } = act.columns[side]
  const name = `${act.letter}-${side}`
  const word = side === 'usual' ? 'failed' : 'held'
  const tone = side === 'usual' ? 'bad' : 'good'
  return html`<div data-key="${name}">
    <h3 class="pad" id="${name}-h">${SIDE_NAMES[side]}</h3>
    <ol class="list" aria-labelledby="${name}-h">${steps.map((step, nth) => stepRow(view, step, nth))}</ol>
    ${verdict && html`<p class="pad" data-key="verdict">${badge(verdict.asExpected ? tone : 'busy', verdict.asExpected ? word : 'not shown')} ${linked(view, verdict.text)}</p>`}
  </div>`
}

function stepRow(view: View, { atMs, mark, text }: Step, nth: number): Html {
  const { tone, word } = MARKS[mark]
  return html`<li data-key="${String(nth)}"><span class="badge ${tone}">${shape(tone)}</span><span>${word && html`<span class="vh">${word}</span>`}${linked(view, text)}</span>
    <span class="small muted number">${(atMs / 1_000).toFixed(1)} s</span></li>`
}
