import { DiagLogLevel, diag } from '@opentelemetry/api'
import { withDeadline } from '../deadline.ts'
import type { Events } from '../events.ts'
import { spansMsOf } from '../grace.ts'
import { optionalPackage } from '../optional-package.ts'
import { isTracing } from '../tracing.ts'
import type { RunningConfig } from './foundation.ts'
import type { Running } from './shutdown.ts'

/** Complaints that are remembered, so that each is told once: a collector that is away is noticed every few seconds. */
const COMPLAINTS_MAX = 100

/** Starts a process with traces, if its environment asks for them. */
export async function traced<Started extends Running>(
  config: RunningConfig,
  { name, events }: { name: string; events: Events },
  start: (config: RunningConfig) => Promise<Started>,
): Promise<Started> {
  // Somebody may have brought OpenTelemetry along, with `node --import`; then we only take part.
  if (!config.tracing.isWanted || isTracing()) return start(config)
  const sdk = await startSdk(config, name, events)
  const spansMs = spansMsOf(config.graceMs)
  const flush = () => withDeadline(spansMs, 'the collector', () => sdk.shutdown()).catch(() => {})
  try {
    const running = await start({ ...config, graceMs: config.graceMs - spansMs })
    return {
      ...running,
      async stop() {
        await running.stop()
        await flush()
      },
    }
  } catch (error) {
    await flush()
    throw error
  }
}

/** Where to and how is read from the environment by the SDK itself. Metrics and logs have other ways. */
async function startSdk(
  { tracing }: RunningConfig,
  name: string,
  events: Events,
): Promise<{ shutdown(): Promise<void> }> {
  const { NodeSDK } = await optionalPackage(
    '@opentelemetry/sdk-node',
    'Tracing, which the environment asks for (OTEL_…; OTEL_SDK_DISABLED=true takes that back),',
    () => import('@opentelemetry/sdk-node'),
  )
  const told = new Set<string>()
  const complain = (message: string) => {
    if (told.has(message) || told.size >= COMPLAINTS_MAX) return
    told.add(message)
    events.emit('tracing.failed', { reason: message })
  }
  const { serviceName = `sandman-${name}` } = tracing
  const sdk = new NodeSDK({ serviceName, metricReaders: [], logRecordProcessors: [] })
  const silent = () => {}
  diag.setLogger(
    { error: complain, warn: complain, info: silent, debug: silent, verbose: silent },
    { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true },
  )
  sdk.start()
  return sdk
}
