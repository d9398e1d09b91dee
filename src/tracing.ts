import { type Attributes, context, propagation, type SpanKind, SpanStatusCode, trace } from '@opentelemetry/api'
import { snake } from './snake-case.ts'
import { VERSION } from './version.ts'

/**
 * The parts of OpenTelemetry that Sandman uses. Whether anybody collects traces is for the process to say: `sandman web` and
 * `sandman worker` by the environment (`fleet/tracing.ts`), an app that uses the library by its own setup. If nobody does,
 * all of this costs one look.
 *
 * Spans carry ids, names and kinds of errors, and nothing that somebody has written: there is no redactor on their way out.
 */

/** Whether traces lead anywhere: whoever collects them has said how they are passed on. */
export function isTracing(): boolean {
  return propagation.fields().length > 0
}

type SpanOptions = {
  kind?: SpanKind
  attributes?: Attributes
  /** Besides, as `tagIds` does. */
  ids?: object
  /** Whose headers may say what this belongs to; without, it belongs to whatever is going on here. */
  carrier?: Record<string, string>
  /** What is told of an error. Defaults to its code. */
  errorType?: (error: unknown) => string
}

/** Does some work as a span of its own. */
export function inSpan<T>(name: string, options: SpanOptions, work: () => Promise<T>): Promise<T> {
  if (!isTracing()) return work()
  const { kind, carrier, errorType = codeOf } = options
  const here = context.active()
  const parent = carrier && !trace.getSpan(here) ? propagation.extract(here, carrier) : here
  const attributes = { ...options.attributes, ...idAttributes(options.ids ?? {}) }
  const given = { ...(kind !== undefined && { kind }), attributes }
  return trace.getTracer('sandman', VERSION).startActiveSpan(name, given, parent, async (span) => {
    try {
      return await work()
    } catch (error) {
      span.setAttribute('error.type', errorType(error))
      span.setStatus({ code: SpanStatusCode.ERROR })
      throw error
    } finally {
      span.end()
    }
  })
}

/** Says more about the span that is under way. */
export function tag(attributes: Attributes): void {
  trace.getActiveSpan()?.setAttributes(attributes)
}

/** The span that is under way has failed, without anything being thrown. */
export function tagFailed(errorType: string): void {
  trace.getActiveSpan()?.setAttribute('error.type', errorType).setStatus({ code: SpanStatusCode.ERROR })
}

/** Ids as spans carry them: `operationId` is `sandman.operation_id`. */
export function tagIds(fields: object): void {
  trace.getActiveSpan()?.setAttributes(idAttributes(fields))
}

function idAttributes(fields: object): Attributes {
  const named = Object.entries(fields).filter((entry): entry is [string, string] => typeof entry[1] === 'string')
  return Object.fromEntries(named.map(([name, value]) => [`sandman.${snake(name)}`, value]))
}

function codeOf(error: unknown): string {
  const { code, name } = error as { code?: unknown; name?: unknown }
  return typeof code === 'string' ? code : typeof name === 'string' ? name : 'unknown'
}
