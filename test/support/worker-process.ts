/** A worker as a process of its own, on the backends of a world, that may be told where to die. Started by `crash.ts`. */
import { flushCompileCache } from 'node:module'
import path from 'node:path'
import { monitorEventLoopDelay } from 'node:perf_hooks'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import { createWorker, type Patience } from '../../src/index.ts'
import type { QueueName } from '../../src/queues/names.ts'
import { type DyingPlace, stopAt } from './steps.ts'
import { worldBackends } from './test-backend.ts'

/** What a worker process costs, since it was last asked. */
export type Measured = { rssMb: number; heapMb: number; loopDelayMs: { p50: number; p99: number; max: number } }

export type WorkerOrder = {
  place: { databaseUrl: string; redisUrl?: string; fleet: string }
  providerUrl: string
  dataFolder: string
  patience: Patience
  queues?: QueueName[]
  graceMs?: number
  /** By operation. Whoever started it is told of each that is there; at `settled` it kills itself. */
  dieAt?: Record<string, DyingPlace>
}

const order = JSON.parse(process.argv[2] as string) as WorkerOrder
const { place, providerUrl, dataFolder, patience, queues, graceMs, dieAt = {} } = order
const stops = stopAt(dieAt, (operationId) => process.send?.({ reached: operationId }))
const local = openLocalBackend({ folder: path.join(dataFolder, 'sandboxes'), fleet: place.fleet })

const worker = await createWorker({
  ...place,
  dataFolder,
  patience,
  ...(queues && { queues }),
  ...(graceMs !== undefined && { graceMs }),
  backends: [local, ...worldBackends(providerUrl, place.fleet)].map(stops.backend),
  onEvent: stops.onEvent,
})
process.on('SIGTERM', () => {
  void worker.stop().then(() => process.exit(0))
})
const delay = monitorEventLoopDelay({ resolution: 10 })
delay.enable()
process.on('message', (message) => {
  if (message !== 'measure') return stops.release()
  const ms = (nanoseconds: number) => Math.round(nanoseconds / 1e5) / 10
  process.send?.({
    measured: {
      rssMb: Math.round(process.memoryUsage().rss / 1e6),
      heapMb: Math.round(process.memoryUsage().heapUsed / 1e6),
      loopDelayMs: { p50: ms(delay.percentile(50)), p99: ms(delay.percentile(99)), max: ms(delay.max) },
    } satisfies Measured,
  })
  delay.reset()
})
process.send?.('ready')
flushCompileCache() // it may be killed, and the next one wants to start faster
