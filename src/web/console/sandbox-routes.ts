import { html } from 'hono/html'
import { SandmanError } from '../../errors.ts'
import type { Fleet } from '../../fleet/fleet.ts'
import type { Execution, Operation, Sandbox } from '../../fleet/views.ts'
import { type Action, actionPath, actionsFor, question, VERBS, type Verb } from './actions.ts'
import { readForm, shell } from './form.ts'
import { layout } from './layout.ts'
import { readTail, SHORT_TAIL_BYTES } from './output.ts'
import type { Pages } from './pages.ts'
import { sandboxPage } from './sandbox.ts'
import { idLink } from './shown.ts'
import { withQuery } from './view.ts'

/** As many of each as a page shows. */
const SHOWN = { operations: 12, executions: 12, checkpoints: 12 }

/** One sandbox, and what is asked of it. */
export function serveSandbox(pages: Pages, fleet: Fleet): void {
  pages.get('/sandboxes/:id', 'read', async (c, view) => {
    const id = c.req.param('id') ?? ''
    const sandbox = await fleet.get(id)
    const [why, operations, executions, checkpoints] = await Promise.all([
      fleet.why(id),
      fleet.operations(id, { limit: SHOWN.operations }),
      fleet.executions({ sandboxId: id, limit: SHOWN.executions }),
      fleet.checkpoints(id, { limit: SHOWN.checkpoints }),
    ])
    const [newest] = executions.items
    return sandboxPage(view, {
      sandbox,
      why,
      wholeStory: c.req.query('story') === 'all',
      actions: actionsFor({ sandbox, open: openOf(executions.items), abilities: fleet.backends }),
      operations: operations.items,
      shownOperation: await shownOperation(c.req.query('op'), sandbox, operations.items),
      executions: executions.items,
      checkpoints: { found: checkpoints.items, more: checkpoints.nextCursor !== null },
      tail: newest && (await readTail(fleet, newest, SHORT_TAIL_BYTES)),
    })
  })

  /** What works on it now; or else what was just asked for, however it ended. */
  async function shownOperation(asked: string | undefined, sandbox: Sandbox, known: Operation[]) {
    const id = asked ?? sandbox.operationId
    if (!id) return undefined
    const found = known.find((operation) => operation.id === id)
    if (found) return found
    const { operation } = await fleet.operation(id)
    return operation.sandboxId === sandbox.id ? operation : undefined
  }

  pages.get('/operations/:id', 'read', async (c, view) => {
    const { operation } = await fleet.operation(c.req.param('id') ?? '')
    return c.redirect(view.at(`/sandboxes/${operation.sandboxId}?op=${operation.id}`))
  })

  for (const verb of VERBS) {
    pages.post(`/sandboxes/:id/${verb}`, async (c, view) => {
      const { id } = await fleet.get(c.req.param('id') ?? '')
      const { confirmed, if_busy, if_lost } = await readForm(c)
      const asked = { ...(if_busy && { if_busy }), ...(if_lost && { if_lost }) }
      if (needsWord(verb, asked) && confirmed !== 'yes')
        return c.redirect(view.at(withQuery(actionPath({ id }, { verb }), asked)), 303)
      const { operation } = await ask(fleet, verb, id, asked)
      return c.redirect(view.at(`/sandboxes/${id}?op=${operation.id}`), 303)
    })
  }

  // The question as a page, for browsers without scripts.
  for (const verb of VERBS.filter((each) => needsWord(each, { if_busy: 'interrupt' }))) {
    pages.get(`/sandboxes/:id/${verb}`, 'operate', async (c, view) => {
      const sandbox = await fleet.get(c.req.param('id') ?? '')
      const { items } = await fleet.executions({ sandboxId: sandbox.id, limit: SHOWN.executions })
      const actions = actionsFor({ sandbox, open: openOf(items), abilities: fleet.backends })
      const action = actions.find((each) => isThis(each, verb, c.req.query('if_busy')) && each.asks && each.isOpen)
      if (!action) return c.redirect(view.at(`/sandboxes/${sandbox.id}`))
      const no = html`<a class="button" href="${view.at(`/sandboxes/${sandbox.id}`)}">Keep it</a>`
      return layout(view, {
        title: action.label,
        place: 'sandboxes',
        content: html`<p class="crumbs"><a href="${view.at('/sandboxes')}">Sandboxes</a> / ${idLink(view, sandbox.id)}</p>
          <h1 class="vh">${action.label}</h1>
          <section class="card ask"><div class="pad">${question(view, sandbox, action, no)}</div></section>`,
      })
    })
  }

  pages.post('/sandboxes/:id/executions', async (c, view) => {
    const { command = '' } = await readForm(c)
    if (command.trim() === '') throw new SandmanError('request_invalid', 'command: there is nothing to run.')
    // Whoever types a command into the page of a sandbox wants it to run, wherever that has to be made first.
    const { execution } = await fleet.execute(c.req.param('id') ?? '', { command: shell(command), ifLost: 'respawn' })
    return c.redirect(view.at(`/executions/${execution.id}`), 303)
  })
}

type Asked = { if_busy?: string; if_lost?: string }

/** Whether something is lost by it, so that it is asked about first. */
function needsWord(verb: Verb, { if_busy }: Asked): boolean {
  return verb === 'kill' || verb === 'destroy' || (verb === 'pause' && if_busy === 'interrupt')
}

function isThis(action: Action, verb: Verb, ifBusy: string | undefined): boolean {
  return action.verb === verb && action.field?.value === ifBusy
}

/** A word that is not known is refused by whoever reads the request. */
function ask(fleet: Fleet, verb: Verb, id: string, { if_busy, if_lost }: Asked) {
  if (verb === 'pause') return fleet.pause(id, { ...(if_busy && { ifBusy: if_busy as 'wait' }) })
  if (verb === 'resume') return fleet.resume(id, { ...(if_lost && { ifLost: if_lost as 'respawn' }) })
  return fleet[verb](id)
}

function openOf(executions: Execution[]): Execution[] {
  return executions.filter(({ endedAt }) => endedAt === null)
}
