import { printDuration } from '../src/duration.ts'
import { ERRORS } from '../src/errors.ts'
import { FAILURES } from '../src/sandbox/failures.ts'
import { snake } from '../src/snake-case.ts'
import { ENDPOINTS } from '../src/web/api/endpoints.ts'
import { BODY_BYTES_MAX } from '../src/web/body-limit.ts'
import { SIGN_OF_LIFE_MS } from '../src/web/sign-of-life.ts'
import { ERROR_STATUSES, FAILURE_STATUSES, RETRY_AFTER_SECONDS } from '../src/web/statuses.ts'
import { markdownTable } from './markdown.ts'

/** The library's names, as they are here. */
const onTheWire = (text: string) => text.replace(/\bif[A-Z]\w+/g, snake)

/** `docs/http-api.md`, printed from the tables that the code answers by. */
export function httpApiPage(): string {
  const routes = ENDPOINTS.map(({ method, path, scope, summary, query }) => {
    const parameters = (query?.parameters ?? []).map(({ name }) => `\`${name}\``)
    return [`\`${method} ${path}\``, scope, summary, parameters.join(', ')]
  })
  const failures = Object.entries(FAILURE_STATUSES).map(([type, status]) => {
    const { means, retryable, app } = FAILURES[type as keyof typeof FAILURES]
    return [`\`${type}\``, String(status), means, retryable ? 'yes' : 'no', onTheWire(app)]
  })
  const errors = Object.entries(ERROR_STATUSES)
    .filter(([, status]) => status !== 500)
    .map(([code, status]) => [`\`${code}\``, String(status), ERRORS[code as keyof typeof ERRORS]])
  return `# HTTP API

Printed from the tables in \`src/web\`; a test fails when this page is stale. The whole of it, field by field, is OpenAPI 3.1 at
\`/openapi.json\`, and for people at \`/reference\`. Both are made from the schemas that requests are read by and answers are written by.

## Begin

With \`npm start\` running. Where there are tokens, every request also needs \`-H "Authorization: Bearer <secret>"\`.

<!-- example -->
\`\`\`sh
API=\${API:-http://127.0.0.1:3000/v1}

# Make a sandbox, and wait up to 30 seconds until it runs.
curl -s "$API/sandboxes?wait=30s" -H 'Content-Type: application/json' \\
  -d '{ "backend": "local", "metadata": { "user": "u1" }, "ttl": { "idle": "15m" } }' > made.json
SANDBOX=$(grep -o 'sbx_[0-9a-f]*' made.json | head -n 1)

# Put it to sleep. The same key with every retry of this request, and another one for the next request.
curl -s -X POST "$API/sandboxes/$SANDBOX/pause?wait=30s" -H "Idempotency-Key: first-night-$SANDBOX"

# Run something in it: it wakes by itself.
curl -s "$API/sandboxes/$SANDBOX/executions" -H 'Content-Type: application/json' \\
  -d '{ "command": ["sh", "-c", "echo good morning"] }' > run.json
EXECUTION=$(grep -o 'exe_[0-9a-f]*' run.json | head -n 1)

# Read what it prints, until it has ended.
curl -s -N "$API/executions/$EXECUTION/output"

# How did it get where it is?
curl -s "$API/sandboxes/$SANDBOX/why"

# And forget it.
curl -s -X POST "$API/sandboxes/$SANDBOX/destroy?wait=30s"
\`\`\`

## What can be asked for

${markdownTable(['route', 'scope', 'what it does', 'in the query'], routes)}

Everybody who may \`operate\` may also read, and \`admin\` may do everything. Destroying is operating: whoever may pause a sandbox may end it,
because an app that makes sandboxes has to be able to remove them. A sweep is not, also a dry one: it has every worker list all that
the providers have.

## How it is said

- **JSON**, with names in snake_case: the library's \`ifLost\` is \`if_lost\`. Names of your own (\`metadata\`, \`env\`) stay as they are. A body has to be
  sent as \`application/json\`, in UTF-8, with ${BODY_BYTES_MAX / 1024 / 1024} MiB at most; none at all is \`{}\`. A field that is not known is an error, because it is a mistake.
- **Times** are RFC 3339, **durations** text such as \`90s\`, \`15m\` or \`24h\`, both ways.
- **Ids** say what they are of: \`sbx_\`, \`op_\`, \`exe_\`, \`ckpt_\`. A sandbox names the operation at work on it by its id (\`operation\`), and an
  operation the checkpoint that it made or found (\`checkpoint\`).
- **Lists** are \`{ "items": […], "next_cursor": … }\`. With \`?cursor=\` comes the next page, which the header \`Link\` also names.
- **Metadata** is searched by \`?metadata.user=u1\`: what is text, a number, true or false on its first level, compared as text. What is nested, null, or
  longer than 256 characters is kept and not found; and of one sandbox, no more than 64 values can be searched, those with the shortest names.
- **Fields may be added** to answers in any release. Requests are strict, answers are not.

## Asking, and waiting for it

A verb (\`pause\`, \`resume\`, \`snapshot\`, \`kill\`, \`destroy\`, and the making of a sandbox) is answered as soon as it is accepted: **202**, with \`{ operation, sandbox }\`
and a \`Location\` to ask how it goes on. With \`?wait=30s\` it is answered when it has settled: **200**, or a problem; or 202 when that time is over.
The same verb again, while the first one is at work, joins it. \`GET /v1/operations/:id\` is always 200: that it failed is in it.

An execution is answered in the same way, but how a run ends is no error of the request: one that failed within \`wait\` is 200, and \`status\`, \`reason\`
and \`exit_code\` say how.

**\`Idempotency-Key\`**: the same key with the same request is the same operation, however often it is sent; with another request it is refused
(409, \`idempotency_key_reused\`). Send one with everything that is retried.

**A client that goes** ends its waiting, and nothing else: what was accepted is carried out.

## Output

\`GET /v1/executions/:id/output\` replays what was printed and goes on live, as server-sent events:

\`\`\`
id: 13
data: {"from":0,"to":13,"text":"good morning\\n"}

id: end
event: end
data: {"id":"exe_…","status":"succeeded","reason":"completed","exit_code":0,…}
\`\`\`

- The id of an event is the byte behind it. A browser's \`EventSource\` comes back with it by itself (\`Last-Event-ID\`), and misses and doubles
  nothing; everybody else may also say \`?from=\`. Who comes back behind the end is told that there is nothing more (204).
- A character is never cut: its first bytes wait for the others. What is no UTF-8 is shown as �; \`?encoding=base64\` sends \`{ from, to, base64 }\`, to the byte.
- While nothing is printed, a comment is sent every ${printDuration(SIGN_OF_LIFE_MS)}. If the stream cannot go on, an event \`problem\` says why; come back behind the last id.
- What a program prints is not to be trusted. Show it as text, and never as HTML.

## Problems

Everything that goes wrong is \`application/problem+json\` (RFC 9457):

\`\`\`json
{
  "type": "about:blank",
  "title": "Gone",
  "status": 410,
  "detail": "There is nothing to wake it from …",
  "error_type": "checkpoint_missing",
  "message": "There is nothing to wake it from …",
  "retryable": false,
  "checkpoint_id": "ckpt_…",
  "operation": { "id": "op_…", "status": "failed", … }
}
\`\`\`

Switch on \`error_type\`; \`message\` is for people; \`retryable\` says whether the same request may succeed later. With 429 and 503 comes \`Retry-After\`
(${RETRY_AFTER_SECONDS} seconds). \`errors\` names every field that is wrong: \`[{ "field": "ttl.idle", "message": … }]\`.

What was asked of a sandbox, and failed or was refused; \`operation\` is in it, where there is one:

${markdownTable(['error type', 'status', 'means', 'retryable', 'the app should'], failures)}

What was asked in a way that nobody can answer, or of somebody who is away:

${markdownTable(['error type', 'status', 'means, and what to do'], errors)}

And of the request itself: 400 \`malformed_json\`, 401 \`unauthorized\`, 403 \`forbidden\`, 404 \`not_found\`, 405 \`method_not_allowed\` (with \`Allow\`), 413 \`body_too_large\`,
415 \`unsupported_media_type\`, 429 \`too_many_requests\`. What is 500 is a bug of ours, and is in the log under the request's id
(\`request_id\`, also the header \`X-Request-Id\`). [Who may do what](security.md), and how often, is told on a page of its own.

## Inside of your own app

\`createApp(fleet, { basePath, tokens, access })\` of \`sandman/web\` is a fetch handler with all of this, the console and Bull Board. There are whole examples, each of which is
run by a test: [Next.js](../examples/nextjs/app/api/sandman/%5B...path%5D/route.ts), [Express](../examples/express/server.ts), [Hono](../examples/hono/server.ts).
\`access\` lets your app say by its own login who may come in. Links in answers are relative, so that it does not matter where it is mounted.
`
}
