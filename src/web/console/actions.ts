import { html } from 'hono/html'
import type { Fleet } from '../../fleet/fleet.ts'
import type { Execution, Sandbox } from '../../fleet/views.ts'
import { count } from '../../fleet/words.ts'
import type { FailureType } from '../../sandbox/failures.ts'
import { type Circumstances, judge, type Options } from '../../sandbox/judge.ts'
import type { SettledState } from '../../sandbox/states.ts'
import { shown } from './shown.ts'
import type { Html, View } from './view.ts'

/** What can be asked of a sandbox by a button. */
export const VERBS = ['pause', 'resume', 'snapshot', 'kill', 'destroy'] as const
export type Verb = (typeof VERBS)[number]

export function isVerb(word: string): word is Verb {
  return (VERBS as readonly string[]).includes(word)
}

/** A button: what it will do as things are, and whether it can. The table of judgements decides; this only finds the words. */
export type Action = {
  verb: Verb
  label: string
  /** What will happen, or why nothing would. */
  says: string
  isOpen: boolean
  /** Asked before it is done, because it cannot be undone: the question, and what is lost. */
  asks?: { question: string; loses: string }
  /** What the request allows besides, as the field of a form. */
  field?: { name: string; value: string }
}

type Facts = { sandbox: Sandbox; open: Execution[]; abilities: Fleet['backends'] }

export function actionsFor({ sandbox, open, abilities }: Facts): Action[] {
  const backend = abilities.find(({ name }) => name === sandbox.backend)
  const able = (verb: Verb) =>
    verb === 'pause' ? (backend?.canPause ?? true) : verb === 'snapshot' ? (backend?.canSnapshot ?? true) : true
  return VERBS.flatMap((verb) => describe(verb, sandbox, { able: able(verb), busy: open.length > 0 }, open))
}

function describe(verb: Verb, sandbox: Sandbox, circumstances: Circumstances, open: Execution[]): Action[] {
  const { state } = sandbox
  const asks = questionOf(verb, sandbox)
  const action = { verb, label: LABELS[verb], ...(asks && { asks }) }
  const ruled = (options: Options = {}) => judge({ kind: verb, options }, state, circumstances, 'behind_other')
  const ruling = ruled()
  switch (ruling.answer) {
    case 'work':
      return [{ ...action, says: DOES[verb], isOpen: true }]
    case 'already_done':
      return [{ ...action, says: ALREADY[state as SettledState][verb] ?? 'Already done.', isOpen: false }]
    case 'refused':
      if (ruling.because === 'sandbox_busy') return pauseWhileBusy(open)
      if (verb === 'resume' && ruled({ if_lost: 'respawn' }).answer === 'work') return [RESPAWN]
      return [{ ...action, says: REFUSED[ruling.because]?.(sandbox) ?? 'Not possible now.', isOpen: false }]
    default:
      return [{ ...action, says: `Waits until it is no longer ${state}. ${DOES[verb]}`, isOpen: true }]
  }
}

const LABELS: Record<Verb, string> = {
  pause: 'Pause',
  resume: 'Resume',
  snapshot: 'Snapshot',
  kill: 'Kill',
  destroy: 'Destroy',
}

const DOES: Record<Verb, string> = {
  pause: 'Saves it and frees its compute. A resume goes on where it was.',
  resume: 'Wakes it from its checkpoint, and waits until it is ready.',
  snapshot: 'Copies it while it keeps running. A new sandbox can begin from the copy.',
  kill: 'Ends it and frees its compute. Snapshots of it are kept.',
  destroy: 'Ends it for ever, and deletes all its checkpoints.',
}

const ALREADY: Record<SettledState, Partial<Record<Verb, string>>> = {
  running: { resume: 'Already running.' },
  suspended: {
    pause: 'Already suspended.',
    snapshot: 'Already there: the checkpoint that it sleeps on.',
    kill: 'Already done: no compute is left to free. It stays suspended.',
  },
  gone: { kill: 'Already gone.', destroy: 'Already gone.' },
}

const REFUSED: Partial<Record<FailureType, (sandbox: Sandbox) => string>> = {
  sandbox_gone: () => 'It is gone.',
  pause_unsupported: ({ backend }) => `The backend ${backend} cannot pause.`,
  snapshot_unsupported: ({ backend }) => `The backend ${backend} cannot copy what runs.`,
  invalid_transition: ({ state }) => `Not while it is ${state}.`,
}

const RESPAWN: Action = {
  verb: 'resume',
  label: 'Respawn',
  says: 'Starts a fresh one under the same id. What it had is lost already.',
  isOpen: true,
  field: { name: 'if_lost', value: 'respawn' },
}

/** A pause has to be told what becomes of what runs: that is two buttons. */
function pauseWhileBusy(open: Execution[]): Action[] {
  const running = count(open.length, 'execution')
  return [
    {
      verb: 'pause',
      label: 'Pause later',
      says: `Waits until ${running} in it ${open.length === 1 ? 'has' : 'have'} ended, then pauses it.`,
      isOpen: true,
      field: { name: 'if_busy', value: 'wait' },
    },
    {
      verb: 'pause',
      label: 'Pause now',
      says: `Ends ${running} in it, and pauses it.`,
      isOpen: true,
      field: { name: 'if_busy', value: 'interrupt' },
      asks: { question: 'Pause it now?', loses: `${running} in it will be ended and marked as cancelled.` },
    },
  ]
}

function questionOf(verb: Verb, { state }: Sandbox): Action['asks'] {
  if (verb === 'kill')
    return {
      question: 'Kill this sandbox?',
      loses: 'All that it has in memory and on disk is lost. Snapshots of it are kept.',
    }
  if (verb === 'destroy')
    return {
      question: 'Destroy this sandbox?',
      loses: `It ends for ever, and all its checkpoints are deleted${state === 'suspended' ? ', also the one that it sleeps on' : ''}. Nothing of it can be brought back.`,
    }
  return undefined
}

export function actionPath({ id }: Pick<Sandbox, 'id'>, { verb }: Pick<Action, 'verb'>): string {
  return `/sandboxes/${id}/${verb}`
}

/** The panel of buttons. Each says what it will do; what asks first is a link to its question, which a script shows at once. */
export function actionPanel(view: View, sandbox: Sandbox, actions: Action[]): Html {
  return html`<section class="card" id="actions" data-live aria-labelledby="actions-h">
    <header><h2 id="actions-h">Actions</h2></header>
    <ul class="actions">${actions.map(
      (action) => html`<li data-key="${keyOf(action)}">${button(view, sandbox, action)}
        <p id="says-${keyOf(action)}">${action.says}</p></li>`,
    )}</ul>
    ${actions.map((action) => action.asks && action.isOpen && dialog(view, sandbox, action))}
  </section>`
}

function keyOf({ verb, field }: Action): string {
  return field ? `${verb}-${field.value}` : verb
}

function button(view: View, sandbox: Sandbox, action: Action): Html {
  const key = keyOf(action)
  if (!action.isOpen)
    return html`<button type="button" disabled aria-describedby="says-${key}">${action.label}</button>`
  if (action.asks) {
    const href = `${view.at(actionPath(sandbox, action))}${action.field ? `?${action.field.name}=${action.field.value}` : ''}`
    return html`<a class="button danger" role="button" href="${href}" data-dialog="ask-${key}" aria-describedby="says-${key}">${action.label}</a>`
  }
  return html`<form method="post" action="${view.at(actionPath(sandbox, action))}">${hidden(action)}
    <button aria-describedby="says-${key}">${action.label}</button></form>`
}

function hidden({ field }: Action): Html | '' {
  return field ? html`<input type="hidden" name="${field.name}" value="${field.value}">` : ''
}

function dialog(view: View, sandbox: Sandbox, action: Action): Html {
  const key = keyOf(action)
  return html`<dialog id="ask-${key}" class="ask" aria-labelledby="asks-${key}">
    ${question(view, sandbox, action, html`<button formmethod="dialog" formnovalidate autofocus>Keep it</button>`)}
  </dialog>`
}

/** The question, as a dialog shows it and as a page of its own does. */
export function question(view: View, sandbox: Sandbox, action: Action, no: Html): Html {
  const { asks, label } = action
  return html`<h2 id="asks-${keyOf(action)}">${asks?.question}</h2>
    <p>${asks?.loses}</p>
    <p class="mono small muted">${shown(sandbox.id)}</p>
    <form method="post" action="${view.at(actionPath(sandbox, action))}">${hidden(action)}
      <input type="hidden" name="confirmed" value="yes">
      <div class="row">${no}<button class="danger">${label}</button></div>
    </form>`
}
