import { ERRORS } from '../src/errors.ts'
import { FAILURES } from '../src/sandbox/failures.ts'

/** `docs/errors.md`, printed from the tables that the code switches on. */
export function errorsPage(): string {
  const yes = (is: boolean) => (is ? 'yes' : 'no')
  const failures = Object.entries(FAILURES).map(
    ([type, { means, sandbox, again, retryable, app }]) =>
      `| \`${type}\` | ${means} | ${sandbox} | ${yes(again)} | ${yes(retryable)} | ${app} |`,
  )
  const errors = Object.entries(ERRORS).map(([code, means]) => `| \`${code}\` | ${means} |`)
  return `# Errors

Printed from \`src/sandbox/failures.ts\` and \`src/errors.ts\`; a test fails when this page is stale.

## How an operation ends

An operation that failed or was refused says why, as a word to switch on (\`operation.error.errorType\` in the library,
\`error_type\` on the wire) and as a sentence for people. It is a value, and never thrown.

| error type | means | the sandbox is then | the worker tries again | retryable | the app should |
| --- | --- | --- | --- | --- | --- |
${failures.join('\n')}

**Tried again** by the worker means: as often as the queue says (\`src/queues\`), with a pause in between. **Retryable** means
that the app may ask for the same again later. What is said of the sandbox is what usually follows; after the last attempt the
provider is looked at once more, and what it shows is what is written down. A pause that failed although the sandbox sleeps is
a pause that worked.

**When nobody can say**, because the provider does not answer and something may have been changed there, the operation stays
open and its sandbox in flight, and it is looked at once a minute until somebody can. \`operation.lastError\` says what is in
the way. A kill and a destroy also go on trying. If nothing was changed yet, the operation fails and the sandbox is where it was.
A snapshot changes nothing about where its sandbox is.

**Gone means that nothing is left**: what remains of a sandbox at its provider is ended before it is said to be gone, because
afterwards no request would reach it. A checkpoint that is whole outlives it, and can be spawned from.

**A resume that wakes a sandbox only half** (a probe, a wake command or the preview fails, twice) puts it back to sleep, so that
a retry is a new try and nothing runs that nobody uses. \`skipHooks\` wakes it without commands and preview, to mend them.

## What is thrown

A \`SandmanError\` has a \`code\` to switch on, a message that says what to do, and \`details\`. When a call to the library throws,
nothing was asked of the sandbox; unless the database was lost in the middle of it, and then the same idempotency key finds out.

| code | means, and what to do |
| --- | --- |
${errors.join('\n')}
`
}
