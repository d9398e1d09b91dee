import { html } from 'hono/html'
import type { Health } from '../../fleet/health.ts'
import type { Overview, QueueGlance } from '../../fleet/overview.ts'
import type { Sweep } from '../../fleet/sweep.ts'
import { age, count, inWords } from '../../fleet/words.ts'
import { SETTLED_STATES, STATES, type State } from '../../sandbox/states.ts'
import { attention } from './attention.ts'
import { badge, toneOfState } from './badges.ts'
import { begin } from './begin.ts'
import { layout } from './layout.ts'
import { liveOf } from './live-path.ts'
import { shown } from './shown.ts'
import { bar, spark } from './spark.ts'
import { ageOf, number, span } from './times.ts'
import { type Html, type View, withQuery } from './view.ts'

/** The fleet at a glance. */
export function frontPage(view: View, overview: Overview, origin: string): Html {
  const total = overview.counts.reduce((sum, { count }) => sum + count, 0)
  const { succeeded, failed } = overview.resumes
  const isEmpty = total === 0 && overview.failing.length === 0 && succeeded === 0 && failed.length === 0
  return layout(view, {
    title: 'Overview',
    place: 'front',
    stream: liveOf({ overview: true }),
    say: overview.health.ready ? '' : 'The fleet is not ready.',
    content: html`
      <div class="head"><h1>Overview</h1>${healthLine(overview.health)}</div>
      ${isEmpty ? begin(view, origin) : html`${tiles(view, overview)}${attention(view, overview)}`}
      ${overview.trends.length > 0 && trends(overview)}
      <div class="columns">
        <div>${!isEmpty && byBackend(view, overview)}${housekeeping(view, overview)}</div>
        <div>${queues(view, overview.queues)}${resumes(overview)}</div>
      </div>`,
  })
}

function healthLine({ ready, checks }: Health): Html {
  const failing = Object.entries(checks).filter(([, { ok }]) => !ok)
  const why = failing.map(([name, { message }]) => `${name}: ${message}`).join('; ')
  const fine = Object.entries(checks).map(([name, { message }]) => `${name} ${message}`)
  return html`<span id="health" data-live class="row">${badge(ready ? 'good' : 'bad', ready ? 'ready' : 'not ready')}
    <span class="small muted">${shown(ready ? fine.join(' · ') : why)}</span></span>`
}

/** Those that rest, and all that are on their way, as numbers that lead to them. */
function tiles(view: View, { counts }: Overview): Html {
  const of = (states: readonly State[]) => counts.filter(({ state }) => states.includes(state))
  const tile = (name: string, states: readonly State[], query: { state?: string }) => {
    const found = of(states)
    const oldest = found.map(({ oldestSince }) => oldestSince.getTime()).sort((a, b) => a - b)[0]
    return html`<a class="tile" href="${view.at(withQuery('/sandboxes', query))}" data-key="${name}">
      ${badge(states[0] ? toneOfState(states[0]) : 'over', name)}
      <b>${number(found.reduce((sum, { count }) => sum + count, 0))}</b>
      <span class="small muted">${oldest === undefined ? 'none' : html`the oldest for ${ageOf(view, new Date(oldest))}`}</span></a>`
  }
  const inFlight = STATES.filter((state) => !(SETTLED_STATES as readonly State[]).includes(state))
  const moving = inFlight.filter((state) => of([state]).length > 0)
  return html`<div class="tiles" id="tiles" data-live>
    ${tile('running', ['running'], { state: 'running' })}
    ${tile('suspended', ['suspended'], { state: 'suspended' })}
    ${(moving.length > 0 ? moving : (['provisioning'] as const)).map((state) => tile(state, [state], { state }))}
  </div>`
}

function byBackend(view: View, { counts }: Overview): Html {
  const backends = [...new Set(counts.map(({ backend }) => backend))].sort()
  const states = STATES.filter((state) => counts.some((each) => each.state === state))
  const cell = (backend: string, state: State) => {
    const count = counts.find((each) => each.backend === backend && each.state === state)?.count
    return count === undefined
      ? html`<td class="number muted"><span aria-label="none">·</span></td>`
      : html`<td class="number"><a href="${view.at(withQuery('/sandboxes', { state, backend }))}">${number(count)}</a></td>`
  }
  return html`<section class="card" id="backends" data-live aria-labelledby="backends-h">
    <header><h2 id="backends-h">By backend</h2></header>
    <div class="sideways" role="group" tabindex="0" aria-labelledby="backends-h"><table><caption class="vh">Sandboxes by backend and state</caption>
      <thead><tr><th scope="col">Backend</th>${states.map((state) => html`<th scope="col" class="number">${state}</th>`)}</tr></thead>
      <tbody>${backends.map((backend) => html`<tr data-key="${backend}"><th scope="row">${shown(backend)}</th>${states.map((state) => cell(backend, state))}</tr>`)}</tbody>
    </table></div></section>`
}

function resumes({ resumes: { succeeded, failed, p50Ms, p95Ms } }: Overview): Html {
  const failures = failed.reduce((sum, { count }) => sum + count, 0)
  const all = succeeded + failures
  const percent = all === 0 ? 100 : (succeeded / all) * 100
  return html`<section class="card" id="resumes" data-live aria-labelledby="resumes-h">
    <header><h2 id="resumes-h">Resumes</h2><span class="small muted">of the last 24 hours</span></header>
    ${
      all === 0
        ? html`<p class="none">None was asked for.</p>`
        : html`<div class="pad"><div class="row"><b class="number">${percent.toFixed(percent === 100 ? 0 : 1)} %</b> succeeded
          <span class="muted">${number(succeeded)} of ${number(all)}</span></div>
          ${bar(percent, percent >= 99 ? 'good' : percent >= 95 ? 'busy' : 'bad')}
          <p class="small muted">Half of them took ${p50Ms === null ? '?' : span(p50Ms)} or less, 95 % ${p95Ms === null ? '?' : span(p95Ms)} or less.</p></div>`
    }
    ${failed.length > 0 && html`<ul class="list">${failed.map(({ errorType, count }) => html`<li data-key="${errorType}">${badge('bad', inWords(errorType))}<span></span><span class="number">${number(count)}</span></li>`)}</ul>`}
  </section>`
}

function queues(view: View, found: QueueGlance[] | null): Html {
  const cell = (count: number, bad = false) =>
    html`<td class="number ${count === 0 ? 'muted' : bad ? 'bad-text' : ''}">${number(count)}</td>`
  return html`<section class="card" id="queues" data-live aria-labelledby="queues-h">
    <header><h2 id="queues-h">Queues</h2><a class="end small" href="${view.at('/queues')}">Bull Board</a></header>
    ${
      found === null
        ? html`<p class="none">The queues cannot be read now.</p>`
        : html`<div class="sideways" role="group" tabindex="0" aria-labelledby="queues-h"><table><caption class="vh">What each queue holds</caption>
      <thead><tr><th scope="col">Queue</th><th scope="col" class="number">Waiting</th><th scope="col" class="number">Active</th><th scope="col" class="number">Later</th><th scope="col" class="number">Failed</th><th scope="col" class="number">Oldest</th></tr></thead>
      <tbody>${found.map(
        ({
          name,
          waiting,
          active,
          delayed,
          failed,
          oldestMs,
        }) => html`<tr data-key="${name}"><th scope="row">${name}</th>
        ${cell(waiting)}${cell(active)}${cell(delayed)}${cell(failed, true)}<td class="number muted">${oldestMs === null ? '' : age(oldestMs)}</td></tr>`,
      )}</tbody></table></div>`
    }</section>`
}

const DIRECTIONS = {
  missing_there: 'we have it, the provider does not',
  unknown_here: 'the provider has it, we do not',
} as const

function housekeeping(view: View, { orphans, sweeps }: Overview): Html {
  return html`<section class="card" id="sweeps" data-live aria-labelledby="sweeps-h">
    <header><h2 id="sweeps-h">Sweeper</h2><span class="small muted">our rows and the providers, compared</span></header>
    <div class="sideways" role="group" tabindex="0" aria-labelledby="sweeps-h"><table><caption class="vh">Orphans, in both directions</caption>
      <thead><tr><th scope="col">Orphans</th><th scope="col" class="number">Open</th><th scope="col" class="number">Ended today</th></tr></thead>
      <tbody>${orphans.map(
        ({
          direction,
          kind,
          open,
          endedLastDay,
        }) => html`<tr data-key="${kind}"><th scope="row">${inWords(kind)} <span class="small muted">${DIRECTIONS[direction]}</span></th>
        <td class="number ${open === 0 ? 'muted' : ''}">${number(open)}</td><td class="number ${endedLastDay === 0 ? 'muted' : ''}">${number(endedLastDay)}</td></tr>`,
      )}</tbody></table></div>
    ${sweeps.length === 0 ? html`<p class="none">Nothing was swept yet.</p>` : html`<ul class="list">${sweeps.map((sweep) => sweepRow(view, sweep))}</ul>`}
  </section>`
}

function sweepRow(view: View, sweep: Sweep): Html {
  const { backend, place, endedAt, stopped, failing, isUnswept, instances, checkpoints } = sweep
  const verdict = stopped
    ? badge('bad', 'stopped')
    : failing
      ? badge('bad', 'provider fails')
      : isUnswept
        ? badge('busy', 'not swept')
        : badge('good', 'believed')
  const why = stopped?.because ?? failing?.message ?? (isUnswept ? 'No worker has been there for long.' : undefined)
  return html`<li data-key="${backend}/${place}">${verdict}<span>${shown(backend)} <span class="muted small">${shown(place, 80)}</span></span>
    <span class="small muted">${endedAt ? html`${ageOf(view, endedAt)} ago` : 'not yet whole'}</span>
    <span class="what">${why ? shown(why, 400) : `Seen: ${count(instances, 'instance')} and ${count(checkpoints, 'checkpoint')}.`}</span></li>`
}

function trends({ trends }: Overview): Html {
  return html`<section class="card" id="trends" data-live aria-labelledby="trends-h">
    <header><h2 id="trends-h">Trends</h2><span class="small muted">of the last 24 hours</span></header>
    <div class="trends">${trends.map(spark)}</div></section>`
}
