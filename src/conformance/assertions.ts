import assert from 'node:assert/strict'
import { BackendError, type BackendErrorType } from '../backends/backend.ts'

/**
 * What is asserted of a backend. Each says first which call it is about: whoever writes a backend sees what a runner prints, and not
 * the line of the kit that failed.
 */

export function is(what: string, actual: unknown, expected: unknown): void {
  assert.deepEqual(actual, expected, `${what} was expected to be ${shown(expected)}, and was ${shown(actual)}`)
}

export function isNot(what: string, actual: unknown, unwanted: unknown): void {
  assert.notDeepEqual(actual, unwanted, `${what} was not to be ${shown(unwanted)}, and was`)
}

export function matches(what: string, actual: string, pattern: RegExp): void {
  assert.match(actual, pattern, `${what} was expected to match ${pattern}, and was ${shown(actual)}`)
}

/** `what` is the whole sentence, with what was seen instead. */
export function holds(what: string, condition: unknown): asserts condition {
  assert.ok(condition, what)
}

/** That it fails as the contract says, with one of these. */
export async function fails(
  what: string,
  types: BackendErrorType | readonly BackendErrorType[],
  attempt: Promise<unknown>,
): Promise<void> {
  const outcome = await outcomeOf(attempt)
  const wanted = `${what} was expected to fail as ${[types].flat().join(' or ')}`
  if (!('error' in outcome)) assert.fail(`${wanted}, and answered ${shown(outcome.value)}`)
  const { error } = outcome
  holds(`${wanted}, and failed, but not with a BackendError: ${shown(error)}`, error instanceof BackendError)
  holds(`${wanted}, and failed as ${shown(error)}`, [types].flat().includes(error.type))
}

/** That it fails, however. */
export async function refused(what: string, attempt: Promise<unknown>): Promise<void> {
  const outcome = await outcomeOf(attempt)
  holds(`${what} was expected to be refused, and was carried out`, 'error' in outcome)
}

/** That a call which was given up fails with the very reason of its signal. */
export async function givenUp(what: string, attempt: Promise<unknown>, reason: Error): Promise<void> {
  const outcome = await outcomeOf(attempt)
  const wanted = `${what} was given up, and was expected to fail with the reason of its signal`
  if (!('error' in outcome)) assert.fail(`${wanted}; it answered ${shown(outcome.value)}`)
  holds(`${wanted}; it failed with ${shown(outcome.error)}`, outcome.error === reason)
}

function outcomeOf(attempt: Promise<unknown>): Promise<{ value: unknown } | { error: unknown }> {
  return attempt.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
}

/** As much of it as tells what it is. */
const SHOWN_CHARS = 500

export function shown(value: unknown): string {
  if (value instanceof BackendError) return `${value.type}: ${value.message}`
  if (value instanceof Error) return `${value.stack}`
  const text = value instanceof Uint8Array ? JSON.stringify(Buffer.from(value).toString()) : JSON.stringify(value)
  return text === undefined ? 'nothing' : text.length <= SHOWN_CHARS ? text : `${text.slice(0, SHOWN_CHARS)}…`
}
