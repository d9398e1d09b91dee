import { html } from 'hono/html'
import type { Execution, Sandbox } from '../../fleet/views.ts'
import { size } from '../../fleet/words.ts'
import { EXECUTION_REASONS } from '../../sandbox/executions.ts'
import { executionBadge, stateBadge } from './badges.ts'
import { layout } from './layout.ts'
import { liveOf } from './live-path.ts'
import { outputBox, type Tail } from './output.ts'
import { idLink, linked, shown, shownCommand } from './shown.ts'
import { ageOf, moment, number, span } from './times.ts'
import type { Html, View } from './view.ts'

type Parts = { execution: Execution; sandbox: Sandbox; tail: Tail }

/** One run of an agent: how it stands, how it ended and why, and what it printed. */
export function executionPage(view: View, { execution, sandbox, tail }: Parts): Html {
  const { id, endedAt, status } = execution
  return layout(view, {
    title: `Execution ${status}`,
    place: 'sandboxes',
    say: `The execution ${endedAt ? 'has' : 'is'} ${status}.`,
    ...(endedAt === null && { stream: liveOf({ sandboxIds: [sandbox.id], execution: { id, from: tail.to } }) }),
    content: html`
      <p class="crumbs"><a href="${view.at('/sandboxes')}">Sandboxes</a> / ${idLink(view, sandbox.id)} / execution</p>
      <div class="head" id="head" data-live>
        <h1 class="mono">${id}</h1>${executionBadge(execution)}
        ${endedAt === null && view.mayOperate && cancelForm(view, execution)}
      </div>
      ${reason(view, execution)}
      <div class="with-side">
        <div class="main early"><section class="card" id="output" data-live aria-labelledby="output-h">
          <header><h2 id="output-h">Output</h2><span class="small muted">as text, whatever it is</span>
            ${execution.outputBytes > 0 && html`<a class="end small" href="${view.at(`/executions/${id}/output.txt`)}" download>Download</a>`}</header>
          ${outputBox(view, execution, tail)}
        </section></div>
        <div>${executionFacts(view, execution, sandbox)}</div>
      </div>`,
  })
}

function reason(view: View, { reason, message, status, exitCode }: Execution): Html {
  const tone = status === 'failed' ? 'bad' : 'over'
  const code = exitCode === null ? '' : html` Exit code <b>${exitCode}</b>.`
  return html`<div id="reason" data-live>${
    reason &&
    html`<div class="note ${tone}"><b class="mono">${reason}</b>
      <p>${EXECUTION_REASONS[reason]}${code} ${message && linked(view, message)}</p></div>`
  }</div>`
}

function cancelForm(view: View, { id, cancelRequestedAt }: Execution): Html {
  if (cancelRequestedAt) return html`<span class="muted small">is being cancelled</span>`
  return html`<form class="end" method="post" action="${view.at(`/executions/${id}/cancel`)}"><button class="danger">Cancel</button></form>`
}

function executionFacts(view: View, execution: Execution, sandbox: Sandbox): Html {
  const { startedAt, endedAt, createdAt, hardDeadlineAt } = execution
  const rows: [string, Html | string | false | null][] = [
    ['Sandbox', html`${idLink(view, sandbox.id)} ${stateBadge(sandbox)}`],
    ['Command', html`<code>${shown(shownCommand(execution.command), 600)}</code>`],
    ['Asked for', html`${moment(createdAt)}`],
    ['Began', startedAt && html`${moment(startedAt)}`],
    ['Ended', endedAt && html`${moment(endedAt)}`],
    [
      'Took',
      startedAt && (endedAt ? span(endedAt.getTime() - startedAt.getTime()) : html`${ageOf(view, startedAt)} so far`),
    ],
    ['Printed', size(execution.outputBytes)],
    ['Breaks in a row', execution.breaks > 0 && number(execution.breaks)],
    ['Woken by', execution.wakeOperationId && idLink(view, execution.wakeOperationId)],
    ['Must end', endedAt === null && hardDeadlineAt && html`in ${ageOf(view, hardDeadlineAt)}`],
  ]
  return html`<section class="card" id="facts" data-live aria-labelledby="facts-h">
    <header><h2 id="facts-h">Facts</h2></header>
    <dl class="facts">${rows.map(([name, value]) => value && html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
  </section>`
}
