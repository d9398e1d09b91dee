import { html } from 'hono/html'
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

const ID = /\b((?:sbx|op|exe)_[0-9a-f]{26})\b/

/** The same with links to the pages of the ids in it. */
export function linked(view: View, text: string, max?: number): Html[] {
  return shown(text, max)
    .split(ID)
    .map((part, index) => (index % 2 === 0 ? html`${part}` : idLink(view, part)))
}

const PAGES = { sbx: 'sandboxes', op: 'operations', exe: 'executions' } as const

export function idLink(view: View, id: string, text = shortId(id)): Html {
  const kind = id.split('_')[0] as keyof typeof PAGES
  return html`<a class="mono nowrap" href="${view.at(`/${PAGES[kind]}/${id}`)}" title="${id}">${text}</a>`
}

/** The beginning of an id is the time it was made at, and alike for many; its end is not. */
export function shortId(id: string): string {
  const [kind, rest = ''] = id.split('_')
  return `${kind}_${rest.slice(0, 4)}…${rest.slice(-8)}`
}

/** A word of the code, as people read it. */
export function words(name: string): string {
  return name.replaceAll('_', ' ')
}

export function shownCommand(command: readonly string[] | null): string {
  if (!command) return 'follows the agent it was made with'
  const [shell, option, script] = command
  if (shell === 'sh' && option === '-c' && command.length === 3) return script ?? ''
  return command.map((word) => (/^[\w@%+=:,./-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`)).join(' ')
}
