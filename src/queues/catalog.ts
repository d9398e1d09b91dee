import type { Kind } from '../sandbox/judge.ts'
import { canaryQueue } from './canary.ts'
import type { QueueDefinition } from './define.ts'
import type { QueueName } from './names.ts'
import type { OperationPayload } from './operation.ts'
import { pauseQueue } from './pause.ts'
import { reaperQueue } from './reaper.ts'
import { resumeQueue } from './resume.ts'
import { snapshotQueue } from './snapshot.ts'
import { spawnQueue } from './spawn.ts'
import { streamsQueue } from './streams.ts'
import { sweeperQueue } from './sweeper.ts'
import { teardownQueue } from './teardown.ts'

/** Every queue by its name, for whoever has to show or count all of them. */
export const QUEUES = {
  canary: canaryQueue,
  spawn: spawnQueue,
  pause: pauseQueue,
  resume: resumeQueue,
  snapshot: snapshotQueue,
  teardown: teardownQueue,
  streams: streamsQueue,
  reaper: reaperQueue,
  sweeper: sweeperQueue,
} as const satisfies { [Name in QueueName]: QueueDefinition }

/** Where an operation is rung for. */
export const QUEUE_OF_KIND = {
  spawn: spawnQueue,
  pause: pauseQueue,
  resume: resumeQueue,
  snapshot: snapshotQueue,
  kill: teardownQueue,
  destroy: teardownQueue,
} as const satisfies { [Each in Kind]: QueueDefinition<OperationPayload> }
