import path from 'node:path'
import type { z } from 'zod'
import type { Backend } from '../backends/backend.ts'
import { type Config, parseConfig } from '../config.ts'
import { type Event, Events } from '../events.ts'
import { HOUSEKEEPING, type Housekeeping } from '../jobs/housekeeping.ts'
import type { Patience } from '../jobs/patience.ts'
import { HousekeepingRequest, KeepRequest, limitsOf, parseRequest, Ttl } from './requests.ts'
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
  onEvent?: (event: Event) => void
}

/** A worker inside of a process of one's own, for a backend of one's own. `sandman worker` is the same, from the environment. */
export async function createWorker(options: WorkerOptions): Promise<{ stop(): Promise<void> }> {
  const { databaseUrl, redisUrl, backends, patience, onEvent } = options
  const config = parseConfig({
    DATABASE_URL: databaseUrl,
    REDIS_URL: redisUrl,
    SANDMAN_FLEET: options.fleet,
    SANDMAN_SWEEPER: options.sweeper,
    SANDMAN_DESTROY_MAX: options.destroyMax?.toString(),
  })
  const { events: eventsMs, output: outputMs, keys: keysMs } = parseRequest(KeepRequest, options.keep ?? {}, 'keep')
  const bounds = parseRequest(HousekeepingRequest, options.housekeeping ?? {}, 'housekeeping')
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
      ttl: limitsOf(parseRequest(Ttl, options.ttl ?? {}, 'ttl')),
      keep: {
        eventsMs: eventsMs ?? config.keep.eventsMs,
        outputMs: outputMs ?? config.keep.outputMs,
        keysMs: keysMs ?? config.keep.keysMs,
      },
    },
    events,
    { backends: given, housekeeping: { ...HOUSEKEEPING, ...bounds } as Housekeeping, ...(patience && { patience }) },
  )
}
