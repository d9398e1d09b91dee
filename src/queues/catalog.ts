import { canaryQueue } from './canary.ts'
import type { QueueDefinition } from './define.ts'
import type { QueueName } from './names.ts'

/** Every queue by its name, for whoever has to show or count all of them. */
export const QUEUES = {
  canary: canaryQueue,
} as const satisfies { [Name in QueueName]: QueueDefinition }
