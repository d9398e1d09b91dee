import { html } from 'hono/html'
import type { Fleet } from '../../fleet/fleet.ts'
import { pairs, shell } from './form.ts'
import { layout } from './layout.ts'
import { shown } from './shown.ts'
import type { Html, View } from './view.ts'

type Given = Record<string, string>
type Parts = { backends: Fleet['backends']; given: Given; problem?: string | undefined; key: string }

/** A form that makes a sandbox. What was wrong is said, and what was written stays. */
export function newPage(view: View, { backends, given, problem, key }: Parts): Html {
  const field = (name: string, label: string, says: string, more: Html | '' = '') => html`<div class="field">
    <label for="${name}">${label}</label>
    <input id="${name}" name="${name}" type="text" class="mono" value="${given[name] ?? ''}" autocomplete="off" spellcheck="false" aria-describedby="${name}-says"${more}>
    <p id="${name}-says">${says}</p></div>`
  return layout(view, {
    title: 'New sandbox',
    place: 'sandboxes',
    content: html`<div class="narrow">
      <p class="crumbs"><a href="${view.at('/sandboxes')}">Sandboxes</a> / new</p>
      <div class="head"><h1>New sandbox</h1></div>
      ${problem && html`<p class="note bad" role="alert"><b>Not made.</b> <span>${shown(problem)}</span></p>`}
      <form class="card" method="post" action="${view.at('/sandboxes')}"><div class="pad">
        <input type="hidden" name="key" value="${key}">
        <div class="field"><label for="backend">Backend</label>
          <select id="backend" name="backend" aria-describedby="backend-says">${backends.map(
            ({ name }) =>
              html`<option value="${name}"${name === given.backend ? html` selected` : ''}>${shown(name)}</option>`,
          )}</select>
          <p id="backend-says">Where it runs. A worker that has this backend makes it.</p></div>
        ${field('command', 'Agent', 'Runs as sh -c for as long as the sandbox lives. Left empty, nothing does, and commands are run in it.', html` placeholder="node agent.js"`)}
        ${field('template', 'Template', 'The provider’s name for what it begins as: an image, a template. Left empty, the backend’s usual one.')}
        <details${given.from || given.memory || given.idle || given.hard || given.metadata || given.preview ? html` open` : ''}><summary>More</summary>
          ${field('from', 'From a checkpoint', 'Begins with the files of this one.', html` placeholder="ckpt_…"`)}
          ${field('memory', 'Memory, in MiB', 'More than that, and the system kills the agent.', html` inputmode="numeric"`)}
          ${field('preview', 'Preview port', 'A port that answers HTTP once it is awake.', html` inputmode="numeric"`)}
          ${field('idle', 'Pause when idle for', 'Such as 15m. Left empty, its fleet’s limit holds.')}
          ${field('hard', 'Destroy after', 'Such as 24h, whatever it does.')}
          <div class="field"><label for="metadata">Metadata</label>
            <textarea id="metadata" name="metadata" rows="3" spellcheck="false" aria-describedby="metadata-says">${given.metadata ?? ''}</textarea>
            <p id="metadata-says">key=value, one a line. Sandboxes are found by it.</p></div>
        </details>
      </div><div class="pad row"><button class="first">Make it</button><a href="${view.at('/sandboxes')}">Cancel</a></div></form>
    </div>`,
  })
}

/** The request that a form means. What a field must not be is said by whoever reads requests. */
export function spawnRequest(given: Given): Parameters<Fleet['spawn']>[0] {
  const { backend = '', command, template, from, memory, preview, idle, hard, metadata, key } = given
  return {
    backend,
    ...(command && { agent: { command: shell(command) } }),
    ...(template && { template }),
    ...(from && { from }),
    ...(memory && { limits: { memoryBytesMax: Number(memory) * 1_048_576 } }),
    ...(preview && { wake: { previewPort: Number(preview) } }),
    ...((idle || hard) && { ttl: { ...(idle && { idle }), ...(hard && { hard }) } }),
    ...(metadata && { metadata: pairs(metadata, 'metadata') }),
    ...(key && { idempotencyKey: key }),
  }
}
