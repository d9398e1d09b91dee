import { html } from 'hono/html'
import type { Checkpoint, Sandbox } from '../../fleet/views.ts'
import { checkpointSize, duration } from '../../fleet/words.ts'
import { badge } from './badges.ts'
import { idLink, shown } from './shown.ts'
import { ageOf, moment } from './times.ts'
import type { Html, View } from './view.ts'

/** What is known of a sandbox. */
export function facts(view: View, sandbox: Sandbox): Html {
  const { ttl, metadata } = sandbox
  const limits = [
    ttl.idleMs === null ? undefined : `idle ${duration(ttl.idleMs)}`,
    ttl.hardMs === null ? undefined : `hard ${duration(ttl.hardMs)}`,
    ttl.retentionMs === null ? undefined : `retention ${duration(ttl.retentionMs)}`,
  ].filter((limit) => limit !== undefined)
  const rows: [string, Html | string | false | null][] = [
    ['Backend', html`${shown(sandbox.backend)}`],
    ['Provider’s name', sandbox.providerRef && html`<code>${shown(sandbox.providerRef)}</code>`],
    ['Incarnation', sandbox.incarnation && html`<code>${shown(sandbox.incarnation)}</code>`],
    ['Preview', sandbox.previewUrl && preview(sandbox.previewUrl)],
    ['Agent’s thread', sandbox.agentThreadId && html`<code>${shown(sandbox.agentThreadId)}</code>`],
    ['Operation', sandbox.operationId && idLink(view, sandbox.operationId)],
    ['Created', html`${moment(sandbox.createdAt)} <span class="muted">(${ageOf(view, sandbox.createdAt)} ago)</span>`],
    ['In this state', html`for ${ageOf(view, sandbox.stateChangedAt)}`],
    ['Last active', html`${ageOf(view, sandbox.lastActiveAt)} ago`],
    ['Its limits', limits.length > 0 ? limits.join(', ') : html`<span class="muted">its fleet’s</span>`],
    ['Its provider ends it', sandbox.expiresAt && expiry(view, sandbox.expiresAt)],
    ['Metadata', Object.keys(metadata).length > 0 && chips(metadata, 64)],
  ]
  return html`<section class="card" id="facts" data-live aria-labelledby="facts-h">
    <header><h2 id="facts-h">Facts</h2></header>
    <dl class="facts">${rows.map(([name, value]) => value && html`<dt>${name}</dt><dd>${value}</dd>`)}</dl>
  </section>`
}

function expiry(view: View, at: Date): Html {
  return at > view.now ? html`in ${ageOf(view, at)}` : html`${ageOf(view, at)} ago`
}

/** Only where it is a page on the web: what a provider calls a URL may be anything. */
function preview(url: string): Html {
  const isWeb = URL.canParse(url) && ['http:', 'https:'].includes(new URL(url).protocol)
  const text = shown(url, 200)
  return isWeb
    ? html`<a href="${url}" rel="noopener noreferrer nofollow" target="_blank">${text}</a>`
    : html`<code>${text}</code>`
}

export function chips(metadata: Record<string, unknown>, max: number): Html {
  const entries = Object.entries(metadata)
  const more = entries.length - max
  return html`${entries
    .slice(0, max)
    .map(
      ([key, value]) =>
        html`<span class="chip">${shown(key, 64)}=<b>${shown(typeof value === 'string' ? value : JSON.stringify(value), 96)}</b></span>`,
    )}${more > 0 && html`<span class="chip">${more} more</span>`}`
}

/** All that it could ever be resumed, or another one made, from. */
export function checkpoints(view: View, found: Checkpoint[], sandbox: Sandbox, more: boolean): Html {
  return html`<section class="card" id="checkpoints" data-live aria-labelledby="checkpoints-h">
    <header><h2 id="checkpoints-h">Checkpoints</h2></header>
    ${
      found.length === 0
        ? html`<p class="none">None yet. A pause makes one, and so does a snapshot.</p>`
        : html`<ul class="list">${found.map((checkpoint) => row(view, checkpoint, sandbox))}</ul>`
    }
    ${more && html`<p class="none">Older ones are not shown.</p>`}
  </section>`
}

function row(
  view: View,
  { id, kind, status, name, sizeBytes, createdAt, providerRef }: Checkpoint,
  { checkpoint, backend }: Sandbox,
): Html {
  const isResting = checkpoint?.id === id
  const tone = status === 'ready' ? (isResting ? 'sleep' : 'good') : status === 'missing' ? 'bad' : 'over'
  return html`<li data-key="${id}">
    ${badge(tone, isResting ? 'sleeps on it' : status)}
    <span>${kind}${name === null ? '' : html` <b>${shown(name)}</b>`} <span class="muted">${checkpointSize(sizeBytes)}</span></span>
    <span class="muted small">${ageOf(view, createdAt)} ago</span>
    <span class="what"><code>${id}</code> ${providerRef === id ? '' : html`at its provider <code>${shown(providerRef, 200)}</code>`}
      ${view.mayOperate && status === 'ready' && html`<a href="${view.at(`/sandboxes/new?from=${id}&backend=${encodeURIComponent(backend)}`)}">New sandbox from it</a>`}</span>
  </li>`
}
