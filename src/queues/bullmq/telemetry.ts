import { type Context, ROOT_CONTEXT, SpanKind } from '@opentelemetry/api'
import type { Attributes, Span, Telemetry } from 'bullmq'
import { BullMQOtel } from 'bullmq-otel'
import { isTracing } from '../../tracing.ts'
import { VERSION } from '../../version.ts'
import { QUEUES } from '../catalog.ts'
import type { QueueName } from '../names.ts'

/** What a job has returned or was told by others may be anything. */
const UNSPOKEN = ['bullmq.job.result', 'bullmq.job.failed.reason']

/**
 * What BullMQ tells of a queue, if anybody wants to know: that a job was added and that it was worked on, with the one leading to
 * the other through the job itself. All that it does besides (asking for the next job, prolonging locks) would bury that.
 */
export function telemetryOf(name: QueueName): { telemetry?: Telemetry<Context> } {
  if (!isTracing()) return {}
  const { tracer, contextManager } = new BullMQOtel({ tracerName: 'sandman', version: VERSION })
  // Each tick of a schedule makes the next one: what belongs together would never end.
  const isScheduled = 'everyMs' in QUEUES[name]
  const told: readonly number[] = isScheduled ? [SpanKind.CONSUMER] : [SpanKind.PRODUCER, SpanKind.CONSUMER]
  return {
    telemetry: {
      tracer: {
        startSpan(spanName, options, context) {
          if (!told.includes(options?.kind ?? SpanKind.INTERNAL)) return NO_SPAN
          return discreet(tracer.startSpan(spanName, options as never, context))
        },
      },
      contextManager: {
        with: (context, work) => contextManager.with(context, work),
        active: () => contextManager.active(),
        root: () => ROOT_CONTEXT,
        getMetadata: (context) => contextManager.getMetadata(isScheduled ? ROOT_CONTEXT : context),
        fromMetadata: (active, metadata) =>
          isScheduled ? ROOT_CONTEXT : contextManager.fromMetadata(active, metadata),
      },
    },
  }
}

const NO_SPAN: Span<Context> = {
  setSpanOnContext: (context) => context,
  setAttribute() {},
  setAttributes() {},
  addEvent() {},
  recordException() {},
  end() {},
}

/** As BullMQ tells it, but for texts. */
function discreet(span: Span<Context>): Span<Context> {
  return {
    setSpanOnContext: (context) => span.setSpanOnContext(context),
    setAttribute: (name, value) => (UNSPOKEN.includes(name) ? undefined : span.setAttribute(name, value)),
    setAttributes: (attributes) => span.setAttributes(spoken(attributes)),
    addEvent: (name, attributes = {}) => span.addEvent(name, spoken(attributes)),
    recordException: (error) => span.setAttribute('error.type', (typeof error !== 'string' && error.name) || 'Error'),
    end: () => span.end(),
  }
}

function spoken(attributes: Attributes): Attributes {
  return Object.fromEntries(Object.entries(attributes).filter(([name]) => !UNSPOKEN.includes(name)))
}
