import { z } from 'zod'
import type { Backend, BackendAbilities } from '../backends/backend.ts'
import { BACKEND_NAMES, type BackendName } from '../backends/names.ts'
import { COUNT_MAX, fleetName, GRACE_MS_MAX, postgresUrl, redisUrl } from '../config-values.ts'
import type { Event } from '../events.ts'
import { PATIENCE, type Patience } from '../jobs/patience.ts'
import { QUEUE_NAMES, type QueueName } from '../queues/names.ts'
import { backendName, HousekeepingRequest, KeepRequest, Ttl } from './requests.ts'

/**
 * What a fleet and a worker are created with, as a check: not all callers have a compiler, and the drivers behind this read
 * the environment, or choose something themselves, where they are given nothing.
 */
const place = {
  databaseUrl: postgresUrl,
  redisUrl: redisUrl.optional(),
  fleet: fleetName.default('default'),
  ttl: Ttl.default({}),
  onEvent: z.custom<(event: Event) => void>((given) => typeof given === 'function', 'must be a function').optional(),
}

const abilities = z.object({ name: backendName, canPause: z.boolean(), canSnapshot: z.boolean() })

export const FleetRequest = z.strictObject({
  ...place,
  backends: z.array(abilities satisfies z.ZodType<BackendAbilities>).default([]),
  connectionsMax: z.int().min(1).default(10),
})

const backend = z.custom<Backend | BackendName>(
  isBackend,
  `must be a backend, or one of ${BACKEND_NAMES.join(', ')}, which Sandman brings`,
)

export const WorkerRequest = z.strictObject({
  ...place,
  backends: z
    .array(backend)
    // Of two with one name, one would do the work of both.
    .refine((given) => areDistinct(given.map(nameOf)), 'has two of the same name'),
  queues: z
    .array(z.enum(QUEUE_NAMES))
    .min(1)
    .refine(areDistinct<QueueName>, 'has the same queue twice')
    .optional(),
  graceMs: z.int().min(0).max(GRACE_MS_MAX).optional(),
  dataFolder: z.string().min(1).optional(),
  sweeper: z.enum(['act', 'report']).optional(),
  destroyMax: z.int().min(1).max(COUNT_MAX).optional(),
  keep: KeepRequest.default({}),
  patience: shapedLike(PATIENCE).optional() as z.ZodType<Patience | undefined>,
  housekeeping: HousekeepingRequest.default({}),
})

function isBackend(given: unknown): boolean {
  if (typeof given === 'string') return (BACKEND_NAMES as readonly string[]).includes(given)
  return typeof given === 'object' && given !== null && backendName.safeParse((given as Partial<Backend>).name).success
}

function nameOf(given: Backend | BackendName): string {
  return typeof given === 'string' ? given : given.name
}

function areDistinct<Name extends string>(names: readonly Name[]): boolean {
  return new Set(names).size === names.length
}

/** Whole numbers where there are some, in the same pairs and under the same names. */
function shapedLike(usual: unknown): z.ZodType {
  if (Array.isArray(usual)) return z.tuple(usual.map(shapedLike) as [z.ZodType, ...z.ZodType[]])
  if (typeof usual !== 'object' || usual === null) return z.int().min(0)
  return z.strictObject(Object.fromEntries(Object.entries(usual).map(([name, value]) => [name, shapedLike(value)])))
}
