import { html } from 'hono/html'
import { quoteWord } from '../../quote-word.ts'
import { ID_DIGITS, ID_PREFIXES, kindOfId } from '../../sandbox/ids.ts'
import { UNSEEN } from '../../unseen.ts'
import type { Html, View } from './view.ts'

/**
 * What a sandbox, a provider or an app has said, made harmless to look at. Markup is escaped by the templates anyhow; this is for
 * characters that are not seen: those that move other text around or hide it are written out, and the rest is left as it is.
 */
export function shown(text: string, max = 2_000): string {
  const cut = text.length <= max ? text : `${text.slice(0, max).replace(/[\ud800-\udbff]$/, '')}…`
  return cut.replaceAll(UNSEEN, (character) => (/[\t\n]/.test(character) ? character : `[U+${hex(character)}]`))
}

function hex(character: string): string {
  return (character.codePointAt(0) as number).toString(16).toUpperCase().padStart(4, '0')
}

/** What has a page of its own. */
const PAGES = { sandbox: 'sandboxes', operation: 'operations', execution: 'executions' } as const
type Paged = keyof typeof PAGES

const prefixes = (Object.keys(PAGES) as Paged[]).map((each) => ID_PREFIXES[each])
const ID = new RegExp(`\\b((?:${prefixes.join('|')})_[0-9a-f]{${ID_DIGITS}})\\b`)

/** The same with links to the pages of the ids in it. */
export function linked(view: View, text: string, max?: number): Html[] {
  return shown(text, max)
    .split(ID)
    .map((part, index) => (index % 2 === 0 ? html`${part}` : idLink(view, part)))
}

export function idLink(view: View, id: string, text = shortId(id)): Html {
  const page = PAGES[kindOfId(id) as Paged]
  return html`<a class="mono nowrap" href="${view.at(`/${page}/${id}`)}" title="${id}">${text}</a>`
}

/** The beginning of an id is the time it was made at, and alike for many; its end is not. */
function shortId(id: string): string {
  const [kind, rest = ''] = id.split('_')
  return `${kind}_${rest.slice(0, 4)}…${rest.slice(-8)}`
}

export function shownCommand(command: readonly string[] | null): string {
  if (!command) return 'follows the agent it was made with'
  const [shell, option, script] = command
  if (shell === 'sh' && option === '-c' && command.length === 3) return script ?? ''
  return command.map(quoteWord).join(' ')
}
