import { html } from 'hono/html'
import type { ContentfulStatusCode } from 'hono/utils/http-status'
import { ERRORS, type ErrorCode, isSandmanError } from '../../errors.ts'
import { layout } from './layout.ts'
import { shown } from './shown.ts'
import type { Html, View } from './view.ts'

const STATUSES: Partial<Record<ErrorCode, ContentfulStatusCode>> = {
  sandbox_not_found: 404,
  operation_not_found: 404,
  execution_not_found: 404,
  request_invalid: 422,
  backend_unknown: 422,
  execution_refused: 409,
  idempotency_key_reused: 409,
  queue_unreachable: 503,
  database_unreachable: 503,
  fleet_closed: 503,
}

export function statusOf(error: unknown): ContentfulStatusCode | undefined {
  return isSandmanError(error) ? STATUSES[error.code] : undefined
}

/** What could be expected to go wrong, as a page. What could not is somebody else's to answer. */
export function failurePage(view: View, error: unknown): { status: ContentfulStatusCode; page: Html } | undefined {
  const status = statusOf(error)
  if (!isSandmanError(error) || status === undefined) return undefined
  const page = layout(view, {
    title: TITLES[status] ?? 'Not done',
    content: html`<div class="narrow"><div class="head"><h1>${TITLES[status] ?? 'Not done'}</h1></div>
      <p class="note bad"><b class="mono">${error.code}</b> <span>${shown(error.message)}</span></p>
      <p class="muted">${ERRORS[error.code].replaceAll('`', '')}</p>
      <p><a href="${view.at('/sandboxes')}">All sandboxes</a></p></div>`,
  })
  return { status, page }
}

const TITLES: Partial<Record<ContentfulStatusCode, string>> = {
  404: 'There is no such thing',
  422: 'This cannot be read',
  503: 'Not now',
}
