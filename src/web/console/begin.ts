import { html } from 'hono/html'
import type { Html, View } from './view.ts'

/** What a fleet without sandboxes shows: how to make the first one. */
export function begin(view: View, origin: string): Html {
  // Who has not logged in did not have to, and has no token.
  const token = view.user === undefined ? '' : '  -H "Authorization: Bearer $SANDMAN_TOKEN" \\\n'
  const examples = [
    [
      'With curl',
      `curl -X POST ${origin}${view.at('/v1/sandboxes')}?wait=30s \\
${token}  -H "Content-Type: application/json" \\
  -d '{"backend":"local","agent":{"command":["sh","-c","while :; do date; sleep 1; done"]}}'`,
    ],
    ['On the command line', 'npx sandman ls --watch\nnpx sandman why <id>'],
    ['What it is for, played live in a fleet of its own', 'npx sandman demo'],
    [
      'From TypeScript',
      `import { createFleet } from 'sandman'

const fleet = createFleet({ databaseUrl: process.env.DATABASE_URL })
const { sandbox } = await fleet.spawn({ backend: 'local', wait: '30s' })
const { execution } = await fleet.execute(sandbox.id, { command: ['echo', 'hello'] })
for await (const { bytes } of fleet.output(execution.id)) process.stdout.write(bytes)
await fleet.pause(sandbox.id, { wait: '30s' })`,
    ],
  ] as const
  return html`<section class="card" aria-labelledby="begin-h">
    <header><h2 id="begin-h">There are no sandboxes yet</h2>
      ${view.mayOperate && html`<a class="button first end" href="${view.at('/sandboxes/new')}">Make the first one</a>`}</header>
    ${examples.map(
      ([name, code], nth) => html`<div class="pad"><h3 class="small muted">${name}</h3>
        <div class="with-copy"><pre class="code" id="example-${nth}" tabindex="0">${code}</pre>
        <button type="button" class="js-only" data-copy="" data-from="example-${nth}" aria-label="Copy: ${name}">Copy</button></div></div>`,
    )}
  </section>`
}
