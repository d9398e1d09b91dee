/** A worker as a process of its own, on the backends of a world, that may be told where to die. Started by `crash.ts`. */
import { flushCompileCache } from 'node:module'
import path from 'node:path'
import { openLocalBackend } from '../../src/backends/local/backend.ts'
import { createWorker, type Patience } from '../../src/index.ts'
import type { QueueName } from '../../src/queues/names.ts'
import { type DyingPlace, stopAt } from './steps.ts'
import { worldBackends } from './test-backend.ts'

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
  backends: [local, ...worldBackends(providerUrl)].map(stops.backend),
  onEvent: stops.onEvent,
})
process.on('SIGTERM', () => {
  void worker.stop().then(() => process.exit(0))
})
process.on('message', stops.release)
process.send?.('ready')
flushCompileCache() // it may be killed, and the next one wants to start faster
