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
  return isHere && isOurs && withoutBase(pathname, basePath) !== '/login' ? `${pathname}${search}` : home
}

/** The login, which leads back to what was asked for. */
export function loginPath(c: WebContext): string {
  const basePath = c.get('basePath')
  const { pathname, search } = new URL(c.req.url)
  const wanted = localPath(`${basePath}${withoutBase(pathname, basePath)}${search}`, basePath)
  return wanted === `${basePath}/` ? `${basePath}/login` : `${basePath}/login?next=${encodeURIComponent(wanted)}`
}
