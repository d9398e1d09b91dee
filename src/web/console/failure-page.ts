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
  const about = isSandmanError(error) ? ERRORS[error.code].replaceAll('`', '') : undefined
  return { status, page: problemPage(view, { status, ...told, about }) }
}

type Told = { status: number; errorType: string; message: string; about?: string | undefined }

export function problemPage(view: View, { status, errorType, message, about }: Told): Html {
  const title = TITLES[status] ?? 'Not done'
  return layout(view, {
    title,
    content: html`<div class="narrow"><div class="head"><h1>${title}</h1></div>
      <p class="note bad"><b class="mono">${errorType}</b> <span>${shown(message)}</span></p>
      ${about && html`<p class="muted">${about}</p>`}
      <p><a href="${view.at('/sandboxes')}">All sandboxes</a></p></div>`,
  })
}

const TITLES: Partial<Record<number, string>> = {
  403: 'Not allowed',
  404: 'There is no such thing',
  422: 'This cannot be read',
  500: 'Something went wrong',
  503: 'Not now',
}
