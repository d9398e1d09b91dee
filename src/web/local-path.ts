import { ID_PREFIXES } from '../sandbox/ids.ts'
import { type WebContext, withoutBase } from './routes.ts'

/** Any base will do: what it is for is to see whether a path leads away from it. */
const HERE = 'http://here.invalid'

/** Where to go after a login, if that is one of our own pages; else the front page. */
export function localPath(wanted: string | undefined, basePath: string): string {
  const home = `${basePath}/`
  if (wanted === undefined || !URL.canParse(wanted, HERE)) return home
  // As a browser will read it: it drops tabs, turns backslashes around and resolves dots.
  const { origin, pathname, search } = new URL(wanted, HERE)
  const isHere = origin === HERE && wanted.startsWith('/') && !pathname.startsWith('//')
  const isOurs = pathname === basePath || pathname.startsWith(home)
  const isFine = isHere && isOurs && withoutBase(pathname, basePath) !== '/login' && !mayTell(pathname, search)
  return isFine ? `${pathname}${search}` : home
}

/** As long as a token is at least. Our own ids are longer, and known by their beginning. */
const SECRET_LENGTH_MIN = 16
const ID = new RegExp(`^(${Object.values(ID_PREFIXES).join('|')})_[0-9a-f.]*`)

/**
 * Whether some part of it could be a secret: such an address is not repeated. Any that could be, and not only those that are, or
 * secrets could be tried out here.
 */
function mayTell(pathname: string, search: string): boolean {
  const query = [...new URLSearchParams(search)].flat()
  const parts = [...pathname.split('/'), ...query].flatMap((part) => part.split(/[.=]/))
  return parts.some((part) => part.replace(ID, '').length >= SECRET_LENGTH_MIN)
}

/** The login, which leads back to what was asked for. */
export function loginPath(c: WebContext): string {
  const basePath = c.get('basePath')
  const { pathname, search } = new URL(c.req.url)
  const wanted = localPath(`${basePath}${withoutBase(pathname, basePath)}${search}`, basePath)
  return wanted === `${basePath}/` ? `${basePath}/login` : `${basePath}/login?next=${encodeURIComponent(wanted)}`
}
