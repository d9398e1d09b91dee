import path from 'node:path'
import type { z } from 'zod'
import type { Backend } from '../backends/backend.ts'
import { type Config, parseConfig } from '../config.ts'
import { type Event, Events } from '../events.ts'
import { HOUSEKEEPING, type Housekeeping } from '../jobs/housekeeping.ts'
import type { Patience } from '../jobs/patience.ts'
import { WorkerRequest } from './options.ts'
import { type KeepRequest, limitsOf, parseRequest, type Ttl } from './requests.ts'
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
  /** How long `stop` may take, up to an hour. What is still in flight four seconds before that is handed back. Defaults to 25 s. */
  graceMs?: number
  /** Folder for what backends keep on this machine. Defaults to `.sandman`. */
  dataFolder?: string
  /** Limits for sandboxes that have none of their own. Without them, nothing ends by itself. */
  ttl?: z.input<typeof Ttl>
  /** Whether something is done about what the sweeper finds, or it is only written down. Defaults to `act`. */
  sweeper?: Config['sweeper']
  /** What one tick of the reaper, or of the sweeper, may end or delete at most. Defaults to 100. */
  destroyMax?: number
  /** How long history, output and idempotency keys are kept. Defaults to 90, 30 and 7 days. */
  keep?: z.input<typeof KeepRequest>
  /** How long jobs wait for what. */
  patience?: Patience
  /** How the reaper and the sweeper are bounded. What is left out is as usual. */
  housekeeping?: Partial<Housekeeping>
  /** Told of all that happens. What it throws changes nothing, and is a warning of the process. */
  onEvent?: (event: Event) => void
}

/** A worker inside of a process of one's own, for a backend of one's own. `sandman worker` is the same, from the environment. */
export async function createWorker(options: WorkerOptions): Promise<{ stop(): Promise<void> }> {
  const { backends, ttl, keep, housekeeping, patience, onEvent, ...asked } = parseRequest(WorkerRequest, options)
  const config = parseConfig({})
  const events = new Events()
  if (onEvent) events.subscribe(onEvent)
  return startWorker(
    {
      ...config,
      databaseUrl: asked.databaseUrl,
      redisUrl: asked.redisUrl,
      fleet: asked.fleet,
      backends: backends.filter((backend) => typeof backend === 'string'),
      queues: asked.queues ?? config.queues,
      graceMs: asked.graceMs ?? config.graceMs,
      dataFolder: path.resolve(asked.dataFolder ?? config.dataFolder),
      ttl: limitsOf(ttl),
      sweeper: asked.sweeper ?? config.sweeper,
      destroyMax: asked.destroyMax ?? config.destroyMax,
      keep: {
        eventsMs: keep.events ?? config.keep.eventsMs,
        outputMs: keep.output ?? config.keep.outputMs,
        keysMs: keep.keys ?? config.keep.keysMs,
      },
    },
    events,
    {
      backends: backends.filter((backend) => typeof backend !== 'string'),
      housekeeping: { ...HOUSEKEEPING, ...housekeeping } as Housekeeping,
      ...(patience && { patience }),
    },
  )
}
