import { html } from 'hono/html'
import type { Health } from '../../fleet/health.ts'
import { VERSION } from '../../version.ts'

const STYLE = `
  :root { color-scheme: light dark; font: 16px/1.5 system-ui, sans-serif; }
  body { max-width: 46rem; margin: 2rem auto; padding: 0 1rem; }
  table { border-collapse: collapse; width: 100%; }
  th, td { text-align: left; padding: .3rem .8rem .3rem 0; border-bottom: 1px solid color-mix(in srgb, currentColor 20%, transparent); }
  td.number, th.number { text-align: right; font-variant-numeric: tabular-nums; }
  .bad { font-weight: 600; }
  footer { margin-top: 2rem; opacity: .7; }
`

/** The front page: whether this deployment works, and what its queues hold. */
export function homePage({ fleet, readiness }: { fleet: string; readiness: Health }) {
  return html`<!doctype html>
<html lang="en">
  <head>
    <meta charset="utf-8">
    <meta name="viewport" content="width=device-width, initial-scale=1">
    <title>Sandman: ${fleet}</title>
    <style>${STYLE}</style>
  </head>
  <body>
    <h1>Sandman</h1>
    <p>Fleet <strong>${fleet}</strong> is ${readiness.ready ? 'ready' : html`<span class="bad">not ready</span>`}.</p>
    <table>
      <caption hidden>What this process depends on</caption>
      ${Object.entries(readiness.checks).map(
        ([name, check]) =>
          html`<tr><th scope="row">${name}</th><td class="${check.ok ? '' : 'bad'}">${check.message}</td></tr>`,
      )}
    </table>
    <p><a href="/queues">Bull Board</a> · <a href="/v1">API</a> · <a href="/readyz">readiness</a></p>
    <footer>Sandman ${VERSION}</footer>
  </body>
</html>`
}
