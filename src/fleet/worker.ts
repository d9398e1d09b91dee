import os from 'node:os'
import { runningClock } from '../clock.ts'
import { withDeadline } from '../deadline.ts'
import { Events } from '../events.ts'
import { signCanary } from '../jobs/canary.ts'
import { type Consumer, consume, type Handler } from '../queues/bullmq/consumer.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import { Producer } from '../queues/bullmq/producer.ts'
import { canaryQueue } from '../queues/canary.ts'
import type { QueueDefinition } from '../queues/define.ts'
import type { QueueName } from '../queues/names.ts'
import { keepRinging } from './bell.ts'
import { layFoundation, type RunningConfig } from './foundation.ts'
import { beforeClosing, type Running } from './shutdown.ts'

/** Takes jobs from the queues until it is stopped. Stateless: any number of them, on any number of machines. */
export async function startWorker(config: RunningConfig, events: Events): Promise<Running> {
  const { handle, store } = await layFoundation(config, { role: 'consumer', name: 'worker', events })
  const workerName = `${os.hostname()}-${process.pid}`
  const deps = { db: handle.db, clock: runningClock, fleet: config.fleet, worker: workerName }

  const take = <Payload>(queue: QueueDefinition<Payload>, handler: Handler<Payload>): Consumer =>
    consume({ store, queue, handler, workerName, events })
  const takers: Partial<Record<QueueName, () => Consumer>> = {
    canary: () => take(canaryQueue, (payload) => signCanary(deps, payload)),
  }
  const consumers = config.queues.flatMap((name) => takers[name]?.() ?? [])
  // Silent: the consumers' connection to the same store already says when it is lost.
  const producer = new Producer(openStore({ ...config, role: 'producer', events: new Events() }))
  const ringing = keepRinging({ ...deps, producer, events })
  events.emit('process.started', { worker: workerName, queues: config.queues, store: store.where })

  return {
    async stop() {
      const graceMs = beforeClosing(config.graceMs)
      await Promise.all([
        ...consumers.map((consumer) => consumer.stop(graceMs)),
        // Its last look may hang with the database; what it was about to ring for comes up again.
        withDeadline(graceMs, 'the last look', () => ringing.stop()).catch(() => {}),
      ])
      await Promise.all([store.close(), producer.close(), handle.close()])
    },
  }
}
