import { context, propagation, trace } from '@opentelemetry/api'
import { afterAll, beforeAll } from 'vitest'
import { type CollectedSpan, startCollector } from '../support/collector.ts'

/** Whoever calls has a trace of its own. */
export const CALLER = { traceId: 'a'.repeat(32), spanId: 'b'.repeat(16) }
export const TRACEPARENT = { traceparent: `00-${CALLER.traceId}-${CALLER.spanId}-01` }

/** Sets this process up as an app does that collects traces, and takes all of it down after the tests. */
export function useOpenTelemetry(): Pick<Awaited<ReturnType<typeof startCollector>>, 'spans' | 'bodies' | 'until'> {
  const spans: CollectedSpan[] = []
  const bodies: string[] = []
  let collector: Awaited<ReturnType<typeof startCollector>>
  let stopSending: () => Promise<void>
  beforeAll(async () => {
    collector = await startCollector({ spans, bodies })
    const { NodeSDK } = await import('@opentelemetry/sdk-node')
    const settings = {
      OTEL_EXPORTER_OTLP_ENDPOINT: collector.url,
      OTEL_EXPORTER_OTLP_PROTOCOL: 'http/json',
      OTEL_BSP_SCHEDULE_DELAY: '50',
    }
    Object.assign(process.env, settings)
    const sdk = new NodeSDK({ serviceName: 'an-app', metricReaders: [], logRecordProcessors: [] })
    sdk.start()
    stopSending = () => sdk.shutdown()
    for (const name of Object.keys(settings)) delete process.env[name]
  })
  afterAll(async () => {
    await stopSending()
    for (const each of [trace, context, propagation]) each.disable()
    await collector.stop()
  })
  return { spans, bodies, until: (isIt) => collector.until(isIt) }
}
