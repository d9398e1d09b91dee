import { html } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { ERRORS, isSandmanError } from '../../errors.ts'
import { explain } from '../problem.ts'
import { layout } from './layout.ts'
import { shown } from './shown.ts'
import type { Html, View } from './view.ts'

/** What could be expected to go wrong, as a page. What could not is somebody else's to answer. */
export function failurePage(view: View, error: unknown): { status: ContentfulStatusCode; page: Html } | undefined {
  const explained = explain(error)
  if (!explained) return undefined
  const { status, told } = explained
  const title = TITLES[status] ?? 'Not done'
  const page = layout(view, {
    title,
    content: html`<div class="narrow"><div class="head"><h1>${title}</h1></div>
      <p class="note bad"><b class="mono">${told.errorType}</b> <span>${shown(told.message)}</span></p>
      ${isSandmanError(error) && html`<p class="muted">${ERRORS[error.code].replaceAll('`', '')}</p>`}
      <p><a href="${view.at('/sandboxes')}">All sandboxes</a></p></div>`,
  })
  return { status, page }
}

const TITLES: Partial<Record<ContentfulStatusCode, string>> = {
  404: 'There is no such thing',
  422: 'This cannot be read',
  503: 'Not now',
}
