import { html } from 'hono/html'
import type { HtmlEscapedString } from 'hono/utils/html'
import { type Access, fromElsewhere, wholeSeconds } from './access.ts'
import { headOf, MOON } from './console/layout.ts'
import { localPath } from './local-path.ts'
import type { Routes, WebContext } from './routes.ts'
import type { Sessions } from './session.ts'
import type { KnownTokens } from './tokens.ts'
import type { Visit } from './visit.ts'

type LoginDeps = { access: Access; sessions: Sessions; tokens: KnownTokens; visit: Visit }

/** How a person comes in: a token for a session. It needs no script, and neither does leaving. */
export function serveLogin(routes: Routes, { access, sessions, tokens, visit }: LoginDeps): void {
  routes.add('GET', '/login', 'anybody', (c) => {
    const next = localPath(c.req.query('next'), c.get('basePath'))
    const isIn = tokens.all.length === 0 || sessions.of(c) !== undefined
    return isIn ? c.redirect(next) : c.html(loginPage({ basePath: c.get('basePath'), next }))
  })

  routes.add('POST', '/login', 'anybody', async (c) => {
    // Nobody is logged in by somebody else's page, as somebody else.
    if (visit.from(c) !== 'here') return fromElsewhere(c)
    const { token, next } = await fields(c)
    const basePath = c.get('basePath')
    const goOn = localPath(next, basePath)
    const judged = access.judge(c, token)
    if (judged && 'name' in judged) {
      sessions.begin(c, judged)
      return c.redirect(goOn, 303)
    }
    if (!judged) return c.html(loginPage({ basePath, next: goOn, refusal: 'There is no such token.' }), 401)
    c.header('retry-after', wholeSeconds(judged.tryAgainMs))
    const refusal = `Too many wrong tokens: try again in ${wholeSeconds(judged.tryAgainMs)} s.`
    return c.html(loginPage({ basePath, next: goOn, refusal }), 429)
  })

  routes.add('POST', '/logout', 'anybody', (c) => {
    if (visit.from(c) !== 'here') return fromElsewhere(c)
    sessions.end(c)
    return c.redirect(`${c.get('basePath')}/login`, 303)
  })
}

/** What the form sends; nothing else is read, least of all a file. */
async function fields(c: WebContext): Promise<{ token: string; next: string | undefined }> {
  const form = new URLSearchParams(await c.req.text())
  return { token: form.get('token')?.trim() ?? '', next: form.get('next') ?? undefined }
}

type LoginView = { basePath: string; next: string; refusal?: string }

function loginPage({ basePath, next, refusal }: LoginView): HtmlEscapedString | Promise<HtmlEscapedString> {
  return html`<!doctype html>
<html lang="en">
  <head>
    ${headOf('Log in to Sandman', (path) => `${basePath}${path}`)}
  </head>
  <body class="login">
    <main>
      <h1 class="brand">${MOON}Sandman</h1>
      <form method="post" action="${basePath}/login">
        ${refusal === undefined ? '' : html`<p role="alert" id="refusal" class="bad">${refusal}</p>`}
        <label for="token">Token</label>
        <input id="token" name="token" type="password" autocomplete="current-password" required autofocus
          ${refusal === undefined ? '' : html`aria-invalid="true" aria-describedby="refusal"`}>
        <input name="next" type="hidden" value="${next}">
        <button type="submit" class="first">Log in</button>
      </form>
      <p class="small muted">The secret of one of the tokens that this deployment was given (<code>SANDMAN_TOKENS</code>).</p>
    </main>
  </body>
</html>`
}
