import { setTimeout as sleep } from 'node:timers/promises'
import { SpanKind } from '@opentelemetry/api'
import { BackendError, type BackendErrorType, type Call } from '../backends/backend.ts'
import { withDeadline } from '../deadline.ts'
import { describeError, isSandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { type Failure, failure } from '../sandbox/failures.ts'
import { inSpan } from '../tracing.ts'
import type { Patience, ProviderCall } from './patience.ts'

/** Calls that change nothing, so that an attempt which made only these has left everything as it was. */
const READING: readonly ProviderCall[] = ['find', 'list', 'look', 'verify', 'preview_url', 'agent_status']

/** What a provider says instead of doing anything. */
const REJECTIONS: readonly BackendErrorType[] = [
  'provider_unauthorized',
  'quota_exceeded',
  'rate_limited',
  'spec_invalid',
  'overtaken',
  'in_use',
]

/** Whom a provider is asked for, on every line about it. */
type Asker = { operationId: string } | { executionId: string } | { sweepOf: string }

/** The way to a backend within one attempt: every call has a deadline, can be given up, and is told of. */
export class Provider {
  readonly patience: Patience
  readonly #backend: string
  readonly #sandboxId: string
  readonly #asker: Asker
  readonly #signal: AbortSignal
  readonly #events: Events
  /** Whether something at the provider may be different because of this attempt. */
  acted = false
  /** Calls that had no answer when their time was up: they may still be on their way. */
  readonly late = new Set<ProviderCall>()

  constructor(options: {
    backend: string
    asker: Asker
    /** What it is asked about: a sandbox, or all of them. */
    sandboxId: string
    patience: Patience
    signal: AbortSignal
    events: Events
  }) {
    this.patience = options.patience
    this.#backend = options.backend
    this.#asker = options.asker
    this.#sandboxId = options.sandboxId
    this.#signal = options.signal
    this.#events = options.events
  }

  async ask<T>(call: ProviderCall, work: (call: Call) => Promise<T>): Promise<T> {
    // A job that was given up may still run on here; it must not begin anything new.
    this.#signal.throwIfAborted()
    const actedBefore = this.acted
    this.acted ||= !READING.includes(call)
    const askedAt = performance.now()
    const asked = { ...this.#asker, backend: this.#backend, call }
    const told = () => ({ ...asked, durationMs: Math.round(performance.now() - askedAt) })
    this.#events.emit('provider.asked', asked)
    try {
      const answer = await this.#inSpan(call, () =>
        withDeadline(this.patience.callMs[call], `${call} of ${this.#sandboxId} at ${this.#backend}`, (late) =>
          work({ signal: AbortSignal.any([late, this.#signal]) }),
        ),
      )
      this.#events.emit('provider.answered', told())
      return answer
    } catch (error) {
      if (isBackendError(error, ...REJECTIONS)) this.acted = actedBefore
      if (isSandmanError(error, 'deadline_exceeded')) this.late.add(call)
      this.#events.emit('provider.failed', { ...told(), answer: this.#answerOf(error), error })
      throw error
    }
  }

  #inSpan<T>(call: ProviderCall, work: () => Promise<T>): Promise<T> {
    const ids = { ...this.#asker, sandboxId: this.#sandboxId, backend: this.#backend, call }
    const errorType = (error: unknown) => backendErrorIn(error)?.type ?? failureOf(error).error_type
    return inSpan(`${this.#backend} ${call}`, { kind: SpanKind.CLIENT, ids, errorType }, work)
  }

  /** One word for what went wrong, to be counted by. */
  #answerOf(error: unknown): string {
    if (this.#signal.aborted) return 'given_up'
    if (isSandmanError(error, 'deadline_exceeded')) return 'deadline'
    return backendErrorIn(error)?.type ?? 'error'
  }

  /** Looks again and again until there is an answer, and throws what it still saw when its patience ends. */
  async poll<T>(
    withinMs: number,
    look: (givenUp: AbortSignal) => Promise<{ answer: T } | { still: BackendError }>,
  ): Promise<T> {
    const startedAt = performance.now()
    const [firstMs, mostMs] = this.patience.pollMs
    for (let pauseMs = firstMs; ; pauseMs = Math.min(pauseMs * 2, mostMs)) {
      const seen = await look(this.#signal)
      if ('answer' in seen) return seen.answer
      if (performance.now() - startedAt + pauseMs > withinMs) throw seen.still
      await sleep(pauseMs, undefined, { signal: this.#signal })
    }
  }
}

/** What a backend meant, also when a library has wrapped its error in its own. */
export function backendErrorIn(error: unknown): BackendError | undefined {
  for (let cause = error, depth = 0; cause instanceof Error && depth < 10; cause = cause.cause, depth++) {
    if (cause instanceof BackendError) return cause
  }
  return undefined
}

export function isBackendError(error: unknown, ...types: BackendErrorType[]): boolean {
  const type = backendErrorIn(error)?.type
  return type !== undefined && types.includes(type)
}

/** What an operation is told of whatever went wrong while it was worked on. */
export function failureOf(error: unknown, checkpointId?: string): Failure {
  const known = backendErrorIn(error)
  if (known && known.type !== 'overtaken' && known.type !== 'in_use')
    return failure(known.type, known.message, checkpointId)
  if (isSandmanError(error, 'deadline_exceeded'))
    return failure('sandbox_unreachable', `${error.message}.`, checkpointId)
  return failure('internal', describeError(error), checkpointId)
}
