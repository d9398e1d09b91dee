import type { Events } from '../events.ts'
import type { Producer } from '../queues/bullmq/producer.ts'
import type { QueueName } from '../queues/names.ts'
import { reaperQueue } from '../queues/reaper.ts'
import { sweeperQueue } from '../queues/sweeper.ts'
import { keepDoing } from './timer.ts'

/** How long a queue that has forgotten everything is without its schedules. */
const EVERY_MS = 15_000

type Deps = { producer: Producer; events: Events; queues: readonly QueueName[]; backends: readonly string[] }

/** One schedule for the reaper, and one of the sweeper for every backend that this worker has. */
async function ensureSchedules({ producer, events, queues, backends }: Deps): Promise<void> {
  const made: string[] = []
  if (queues.includes('reaper') && (await producer.schedule(reaperQueue, 'reaper', {})) === 'made') made.push('reaper')
  for (const backend of queues.includes('sweeper') ? backends : []) {
    const id = sweeperOf(backend)
    if ((await producer.schedule(sweeperQueue, id, { backend, act: true, asked: false })) === 'made') made.push(id)
  }
  if (made.length > 0) events.emit('schedule.made', { schedules: made })
}

/**
 * Ends the sweeps of a backend that no worker has any more. A worker that has it all the same makes the schedule anew within
 * seconds.
 */
export async function endSweeps(producer: Producer, backend: string): Promise<void> {
  await producer.unschedule(sweeperQueue, sweeperOf(backend))
}

function sweeperOf(backend: string): string {
  return `sweeper-${backend}`
}

/** Again and again, in every worker that takes these queues: a store that was flushed has forgotten its schedules too. */
export function keepScheduling(deps: Deps): { stop(): Promise<void> } {
  return keepDoing(async () => {
    await ensureSchedules(deps).catch((error: unknown) => deps.events.emit('schedule.failed', { error }))
  }, EVERY_MS)
}
