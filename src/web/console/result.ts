import { html } from 'hono/html'
import type { Operation } from '../../fleet/views.ts'
import { capital, inWords } from '../../fleet/words.ts'
import { FAILURES } from '../../sandbox/failures.ts'
import { isVerb } from './actions.ts'
import { badge, operationBadge } from './badges.ts'
import { idLink, linked } from './shown.ts'
import { ageOf, span } from './times.ts'
import type { Html, View } from './view.ts'

/** How something that was asked for goes on: accepted, working, and how it ended, with what to do about it. */
export function result(view: View, operation: Operation | undefined): Html {
  return html`<div id="result" data-live>${operation && card(view, operation)}</div>`
}

function card(view: View, operation: Operation): Html {
  const { id, kind, status, settledAt, createdAt, startedAt, error, lastError, attempt } = operation
  const tone = error ? 'bad' : settledAt ? 'good' : 'busy'
  return html`<section class="card" data-key="${id}" aria-labelledby="result-h">
    <header>
      <h2 id="result-h">${capital(kind)}</h2>
      <ol class="steps small">
        <li>asked ${ageOf(view, createdAt)} ago</li>
        <li class="${startedAt ? '' : 'next'}">${status === 'waiting' ? 'waits for its turn' : attempt > 1 ? `attempt ${attempt}` : startedAt ? 'working' : 'accepted'}</li>
        <li class="${settledAt ? '' : 'next'}">${settledAt ? operationBadge(operation) : badge('busy', 'not settled yet')}</li>
      </ol>
      <span class="end small muted">${settledAt ? span(settledAt.getTime() - createdAt.getTime()) : ''} ${idLink(view, id)}</span>
    </header>
    ${
      error &&
      html`<div class="pad ${tone}">
      <p>${linked(view, error.message)}</p>
      <p class="small muted">${FAILURES[error.errorType].means} The sandbox is ${FAILURES[error.errorType].sandbox}.
        What an app should do: ${FAILURES[error.errorType].app}.</p>
      ${again(view, operation)}
    </div>`
    }
    ${
      !error &&
      !settledAt &&
      lastError &&
      html`<div class="pad small">An attempt has failed as <b>${inWords(lastError.errorType)}</b>:
      ${linked(view, lastError.message)} It is tried again.</div>`
    }
  </section>`
}

/** The same once more, where that may help. */
function again(view: View, { sandboxId, kind, error }: Operation): Html | '' {
  if (!view.mayOperate || !error?.retryable || !isVerb(kind) || kind === 'kill' || kind === 'destroy') return ''
  return html`<form method="post" action="${view.at(`/sandboxes/${sandboxId}/${kind}`)}"><button>Try again</button></form>`
}
