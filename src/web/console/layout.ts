import { html } from 'hono/html'
import { VERSION } from '../../version.ts'
import { assetPath } from './assets.ts'
import type { Html, View } from './view.ts'

type PageParts = {
  title: string
  /** Which of the places in the head of the page this belongs to. */
  place?: 'front' | 'sandboxes' | 'reference'
  /** Where it is told what has changed, when this page is to stay true. */
  stream?: string
  /** What is read out when it has changed. */
  say?: string
  content: Html
}

export const MOON = html`<svg viewBox="0 0 24 24" aria-hidden="true"><path d="M17.2 16.6A7.6 7.6 0 0 1 9.4 5.9a8 8 0 1 0 10.6 10 7.5 7.5 0 0 1-2.8.7Z" fill="currentColor"/><circle cx="17.8" cy="7" r="1.6" fill="currentColor"/></svg>`

/** What is between `<head>` and `</head>` of every page, the one that asks for a token included. */
export function headOf(title: string, at: (path: string) => string): Html {
  return html`<meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <meta name="color-scheme" content="light dark">
    <title>${title}</title>
    <link rel="icon" type="image/svg+xml" href="${at(assetPath('sandman.svg'))}">
    <link rel="stylesheet" href="${at(assetPath('console.css'))}">
    <script src="${at(assetPath('theme.js'))}"></script>
    <script src="${at(assetPath('console.js'))}" type="module"></script>`
}

/** The frame of every page: landmarks, the way to every other page, and where live news is told. */
export function layout(view: View, { title, place, stream, say, content }: PageParts): Html {
  const { at, fleet } = view
  const here = (name: PageParts['place']) => (place === name ? html` aria-current="page"` : '')
  return html`<!doctype html>
<html lang="en" data-now="${view.now.getTime()}">
  <head>
    ${headOf(`${title} · ${fleet} · Sandman`, at)}
  </head>
  <body data-stream="${stream ? at(stream) : ''}" data-say="${say ?? ''}">
    <a class="skip" href="#main">Skip to content</a>
    <header class="top"><div>
      <a class="brand" href="${at('/')}">${MOON}Sandman <span class="fleet">${fleet}</span></a>
      <nav aria-label="Main">
        <a href="${at('/')}"${here('front')}>Overview</a>
        <a href="${at('/sandboxes')}"${here('sandboxes')}>Sandboxes</a>
        <a href="${at('/queues')}">Queues</a>
        <a href="${at('/reference')}"${here('reference')}>API</a>
      </nav>
      <form class="find" role="search" method="get" action="${at('/sandboxes')}">
        <label class="vh" for="find">Find by id</label>
        <input id="find" name="id" type="search" placeholder="Find sbx_, op_ or exe_" autocomplete="off" spellcheck="false" maxlength="64">
        <kbd class="js-only" aria-hidden="true">/</kbd>
      </form>
      <span id="live" class="live" role="status"></span>
    </div></header>
    <main id="main" tabindex="-1">${content}</main>
    <footer><div class="row">
      <span>Sandman ${VERSION}. Times are UTC.</span>
      ${view.user !== undefined && html`<form class="end" method="post" action="${at('/logout')}"><button class="plain">Log out ${view.user}</button></form>`}
      <button id="theme" type="button" class="plain js-only">Theme</button>
    </div></footer>
    <p id="told" class="vh" role="status"></p>
  </body>
</html>`
}
