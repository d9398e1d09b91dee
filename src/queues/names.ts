/** Every queue there is. One file each beside this one says what it carries. */
export const QUEUE_NAMES = [
  'canary',
  'spawn',
  'pause',
  'resume',
  'snapshot',
  'teardown',
  'streams',
  'reaper',
  'sweeper',
] as const

export type QueueName = (typeof QUEUE_NAMES)[number]
