import { html } from 'hono/html'
import type { Checkpoint, Execution, Operation, Sandbox } from '../../fleet/views.ts'
import type { Why } from '../../fleet/why.ts'
import { type Action, actionPanel } from './actions.ts'
import { executionBadge, operationBadge, stateBadge } from './badges.ts'
import { checkpoints, facts } from './facts.ts'
import { layout } from './layout.ts'
import { liveOf } from './live-path.ts'
import { outputBox, type Tail } from './output.ts'
import { result } from './result.ts'
import { idLink, linked, shown, shownCommand } from './shown.ts'
import { timeline } from './timeline.ts'
import { ageOf, span } from './times.ts'
import type { Html, View } from './view.ts'

type SandboxParts = {
  sandbox: Sandbox
  why: Why
  wholeStory: boolean
  actions: Action[]
  operations: Operation[]
  /** The one that was just asked for, or is at work. */
  shownOperation: Operation | undefined
  executions: Execution[]
  checkpoints: { found: Checkpoint[]; more: boolean }
  /** The end of what the newest execution printed. */
  tail: Tail | undefined
}

/** Everything about one sandbox: where it is and why, what can be asked of it, and how it got there. */
export function sandboxPage(view: View, parts: SandboxParts): Html {
  const { sandbox, why, actions, executions, tail } = parts
  const newest = executions[0]
  const isPrinting = newest && newest.endedAt === null
  return layout(view, {
    title: `${sandbox.state} ${sandbox.id}`,
    place: 'sandboxes',
    say: `The sandbox is ${sandbox.state}.`,
    stream: liveOf({
      sandboxIds: [sandbox.id],
      ...(isPrinting && tail && { execution: { id: newest.id, from: tail.to } }),
    }),
    content: html`
      <p class="crumbs"><a href="${view.at('/sandboxes')}">Sandboxes</a> / sandbox</p>
      <div class="head" id="head" data-live>
        <h1 class="mono">${sandbox.id}</h1>${stateBadge(sandbox, 'big')}
        <button type="button" class="plain js-only" data-copy="${sandbox.id}" aria-label="Copy the id">Copy</button>
      </div>
      <p class="why" id="why" data-live>${linked(view, why.answer.replace(sandbox.id, 'It'), 6_000)}</p>
      <div class="with-side">
        <div>
          ${view.mayOperate ? actionPanel(view, sandbox, actions) : html`<p class="note over">You may look, and not ask for anything: that needs a token with the scope operate.</p>`}
        </div>
        <div class="main">
          ${result(view, parts.shownOperation)}
          ${executionsCard(view, parts)}
          ${timeline(view, why, parts.wholeStory)}
        </div>
        <div>
          ${facts(view, sandbox)}
          ${checkpoints(view, parts.checkpoints.found, sandbox, parts.checkpoints.more)}
          ${operationsCard(view, parts.operations)}
        </div>
      </div>`,
  })
}

function executionsCard(view: View, { sandbox, executions, tail }: SandboxParts): Html {
  const [newest] = executions
  return html`<section class="card" aria-labelledby="executions-h">
    <header><h2 id="executions-h">Executions</h2></header>
    ${view.mayOperate && runForm(view, sandbox)}
    <div id="executions" data-live>
      ${
        newest &&
        tail &&
        html`<div class="pad small row" data-key="about-${newest.id}">${executionBadge(newest)}
        <code>${shown(shownCommand(newest.command), 160)}</code> ${idLink(view, newest.id)}</div>
        <div data-key="box-${newest.id}">${outputBox(view, newest, tail, 'short')}</div>`
      }
      ${executions.length === 0 && html`<p class="none">Nothing has run in it yet.</p>`}
      ${executions.length > 1 && executionsTable(view, executions.slice(1))}
    </div>
  </section>`
}

const RUN_SAYS: Partial<Record<Sandbox['state'], string>> = {
  running: 'Runs as sh -c in it, as an execution of its own.',
  suspended: 'Wakes it first, then runs as sh -c in it.',
  gone: 'It is gone: a fresh one is started under the same id, and the command runs there.',
}

function runForm(view: View, { id, state }: Sandbox): Html {
  return html`<form class="pad" method="post" action="${view.at(`/sandboxes/${id}/executions`)}">
    <div class="row"><label class="vh" for="command">Command</label>
      <input id="command" name="command" type="text" class="mono" required pattern=".*\\S.*" title="A command" maxlength="32000" placeholder="npm test" autocomplete="off" spellcheck="false" aria-describedby="run-says">
      <button class="first">Run</button></div>
    <p class="small muted" id="run-says" data-live>${RUN_SAYS[state] ?? `Waits until it is no longer ${state}.`}</p>
  </form>`
}

function executionsTable(view: View, executions: Execution[]): Html {
  return html`<table class="cards" role="table"><caption class="vh">Earlier executions</caption>
    <thead role="rowgroup"><tr role="row"><th scope="col" role="columnheader">Execution</th><th scope="col" role="columnheader">Status</th><th scope="col" role="columnheader">Command</th><th scope="col" role="columnheader">Took</th><th scope="col" role="columnheader">Asked</th></tr></thead>
    <tbody role="rowgroup">${executions.map(
      (execution) => html`<tr role="row" data-key="${execution.id}">
        <th scope="row" role="rowheader">${idLink(view, execution.id)}</th>
        <td role="cell">${executionBadge(execution)}</td>
        <td role="cell" class="all"><code>${shown(shownCommand(execution.command), 120)}</code></td>
        <td role="cell" data-label="Took" class="nowrap">${took(execution)}</td>
        <td role="cell" data-label="Asked" class="nowrap muted">${ageOf(view, execution.createdAt)} ago</td>
      </tr>`,
    )}</tbody></table>`
}

function took({ startedAt, endedAt }: Execution): string {
  return startedAt && endedAt ? span(endedAt.getTime() - startedAt.getTime()) : ''
}

function operationsCard(view: View, operations: Operation[]): Html {
  return html`<section class="card" id="operations" data-live aria-labelledby="operations-h">
    <header><h2 id="operations-h">Operations</h2><span class="small muted">the newest first</span></header>
    <ul class="list">${operations.map(
      (operation) => html`<li data-key="${operation.id}"><b>${operation.kind}</b>
        <span>${operationBadge(operation)}</span>
        <span class="small muted">${ageOf(view, operation.createdAt)} ago</span>
        <span class="what">${idLink(view, operation.id)}${operation.settledAt && html` · ${span(operation.settledAt.getTime() - operation.createdAt.getTime())}`}${operation.attempt > 1 && html` · ${operation.attempt} attempts`}</span>
      </li>`,
    )}</ul>
  </section>`
}
