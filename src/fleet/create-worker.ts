import path from 'node:path'
import type { Backend } from '../backends/backend.ts'
import { type Config, parseConfig } from '../config.ts'
import { type Event, Events } from '../events.ts'
import type { Patience } from '../jobs/patience.ts'
import { startWorker } from './worker.ts'

export type WorkerOptions = {
  /** Postgres that holds the truth, migrated by `sandman migrate`. */
  databaseUrl: string
  /** Redis for the queues. Without it, they live in Postgres. */
  redisUrl?: string
  /** Name of the deployment. Defaults to `default`. */
  fleet?: string
  /** Backends of one's own, and those that Sandman brings by their names. */
  backends: readonly (Backend | Config['backends'][number])[]
  /** Queues to take work from. Defaults to all. */
  queues?: Config['queues']
  /** How long work in flight may take after `stop`. Defaults to 25 s. */
  graceMs?: number
  /** Folder for what backends keep on this machine. Defaults to `.sandman`. */
  dataFolder?: string
  /** How long jobs wait for what. */
  patience?: Patience
  onEvent?: (event: Event) => void
}

/** A worker inside of a process of one's own, for a backend of one's own. `sandman worker` is the same, from the environment. */
export async function createWorker(options: WorkerOptions): Promise<{ stop(): Promise<void> }> {
  const { databaseUrl, redisUrl, backends, patience, onEvent } = options
  const config = parseConfig({ DATABASE_URL: databaseUrl, REDIS_URL: redisUrl, SANDMAN_FLEET: options.fleet })
  const events = new Events()
  if (onEvent) events.subscribe(onEvent)
  const named = backends.filter((backend) => typeof backend === 'string')
  const given = backends.filter((backend) => typeof backend !== 'string')
  return startWorker(
    {
      ...config,
      databaseUrl,
      backends: named,
      queues: options.queues ?? config.queues,
      graceMs: options.graceMs ?? config.graceMs,
      dataFolder: path.resolve(options.dataFolder ?? config.dataFolder),
    },
    events,
    { backends: given, ...(patience && { patience }) },
  )
}
