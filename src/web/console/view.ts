import type { HtmlEscapedString } from 'hono/utils/html'
import { allows } from '../access.ts'
import type { WebContext } from '../routes.ts'

/** A piece of a page. What is put into `html` is escaped, unless it is one of these. */
export type Html = HtmlEscapedString | Promise<HtmlEscapedString>

/** Who looks, when, and from where: what every page needs to know. */
export type View = {
  fleet: string
  now: Date
  mayOperate: boolean
  /** Who has logged in with this browser, and can leave again. */
  user: string | undefined
  /** The path of a page below wherever this app is mounted. */
  at(path: string): string
}

export function viewOf(c: WebContext, fleet: { name: string }): View {
  const caller = c.get('caller')
  return {
    fleet: fleet.name,
    now: new Date(),
    mayOperate: allows(c.get('scope'), 'operate'),
    user: caller?.by === 'session' ? caller.name : undefined,
    at: (path) => link(c, path),
  }
}

function link(c: WebContext, path: string): string {
  return `${c.get('basePath')}${path}`
}

/** The same path with other parameters; those that are empty are left out. */
export function withQuery(path: string, query: Record<string, string | undefined>): string {
  const given = Object.entries(query).filter((entry): entry is [string, string] => Boolean(entry[1]))
  return given.length === 0 ? path : `${path}?${new URLSearchParams(given)}`
}
