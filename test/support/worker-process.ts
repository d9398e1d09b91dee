/** A worker as a process of its own, on the backends of a world, that may be told to die at a step. Started by `crash.ts`. */

import type { Event } from '../../src/events.ts'
import { createWorker, type Patience } from '../../src/index.ts'
import type { QueueName } from '../../src/queues/names.ts'
import { stepOf } from './steps.ts'
import { worldBackends } from './test-backend.ts'

export type WorkerOrder = {
  place: { databaseUrl: string; redisUrl?: string; fleet: string }
  providerUrl: string
  dataFolder: string
  patience: Patience
  queues?: QueueName[]
  graceMs?: number
  /** Ends by SIGKILL right after this step of this operation, counted from zero. */
  dieAfter?: { operationId: string; step: number }
}

const order = JSON.parse(process.argv[2] as string) as WorkerOrder
const { place, providerUrl, dataFolder, patience, queues, graceMs, dieAfter } = order
let step = 0

const worker = await createWorker({
  ...place,
  dataFolder,
  patience,
  ...(queues && { queues }),
  ...(graceMs !== undefined && { graceMs }),
  backends: ['local', ...worldBackends(providerUrl)],
  onEvent(event: Event) {
    if (dieAfter && stepOf(event, dieAfter.operationId) && step++ === dieAfter.step)
      process.kill(process.pid, 'SIGKILL')
  },
})
process.on('SIGTERM', () => {
  void worker.stop().then(() => process.exit(0))
})
process.send?.('ready')
