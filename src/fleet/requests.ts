import { z } from 'zod'
import { command, isStorable, Spec, text } from '../backends/spec.ts'
import { parse } from '../checked.ts'
import { DURATION_MS_MAX, LIMIT_MS_MIN, parseDurationMs, printDuration } from '../duration.ts'
import { HOUSEKEEPING, type Housekeeping } from '../jobs/housekeeping.ts'
import { EXECUTION_STATUSES } from '../sandbox/executions.ts'
import { ID_DIGITS, ID_PREFIXES, type Identified, isIdOf } from '../sandbox/ids.ts'
import type { Limits } from '../sandbox/limits.ts'
import { STATES } from '../sandbox/states.ts'
import { BACKEND_CHARS_MAX, PAGE, PAGE_MAX, TAG_CHARS_MAX } from './bounds.ts'

/** What apps may ask for: types for those who have a compiler, and the same as checks for those who do not. */

/** How long a caller may wait in one call. Longer than any operation takes, shorter than any proxy allows. */
export const WAIT_MS_MAX = 600_000
const METADATA_BYTES_MAX = 16_384
const METADATA_LEVELS_MAX = 32
/** An execution takes no longer than this, unless its caller says so. */
export const DEADLINE_MS = 86_400_000
export const OUTPUT_BYTES = 64 * 1024 * 1024
const OUTPUT_BYTES_MAX = 1024 * 1024 * 1024

/** Every duration of a request, with its bounds: for those who take them as text only. */
export const DURATIONS = z.registry<{ minMs: number; maxMs: number }>()

function duration(minMs: number, maxMs: number) {
  const message = `must be a duration such as 90s, 15m or 24h, or milliseconds, from ${printDuration(minMs)} to ${printDuration(maxMs)}`
  const schema = z.union([z.string(), z.number()], message).transform((given, context) => {
    const ms = typeof given === 'number' ? given : parseDurationMs(given)
    if (ms !== undefined && Number.isInteger(ms) && ms >= minMs && ms <= maxMs) return ms
    context.addIssue({ code: 'custom', message })
    return z.NEVER
  })
  DURATIONS.add(schema, { minMs, maxMs })
  return schema
}

/** Limits of a sandbox, or of a fleet. */
export const Ttl = z.strictObject({
  /** After this long without activity it is paused. */
  idle: duration(LIMIT_MS_MIN, DURATION_MS_MAX).optional(),
  /** After this long it is destroyed, whatever it does. */
  hard: duration(LIMIT_MS_MIN, DURATION_MS_MAX).optional(),
  /** Suspended for this long, it is destroyed. */
  retention: duration(LIMIT_MS_MIN, DURATION_MS_MAX).optional(),
  /** What `idle` does where the backend cannot pause: it ends the sandbox. Without it, nothing. */
  ifUnsupported: z.literal('kill').optional(),
})

/** The same in the words of the database. */
export function limitsOf({ idle, hard, retention, ifUnsupported }: z.output<typeof Ttl> = {}): Limits {
  return { idleMs: idle, hardMs: hard, retentionMs: retention, ifUnsupported }
}

/** And back: what a configuration says, as a request would. */
export function ttlOf({ idleMs, hardMs, retentionMs, ifUnsupported }: Limits): z.input<typeof Ttl> {
  return { idle: idleMs, hard: hardMs, retention: retentionMs, ifUnsupported }
}

/** How long what is not needed any more is kept. */
export const KeepRequest = z.strictObject({
  events: duration(LIMIT_MS_MIN, DURATION_MS_MAX).optional(),
  output: duration(LIMIT_MS_MIN, DURATION_MS_MAX).optional(),
  keys: duration(LIMIT_MS_MIN, DURATION_MS_MAX).optional(),
})

/** The least of a bound. Most may be 0, which means none, or at once. */
function leastOf(bound: string): number {
  if (bound === 'looksKept') return 2 // nothing is done about what was not seen twice
  // A batch of none is never seen to be the last, and a place is held, or waited for, anew all the time.
  return /(Batch|holdMs|heldMs)$/.test(bound) ? 1 : 0
}

/** Bounds of the reaper and the sweeper: those that are left out are the usual ones. */
export const HousekeepingRequest = z
  .strictObject(
    Object.fromEntries(Object.keys(HOUSEKEEPING).map((name) => [name, z.int().min(leastOf(name))])) as Record<
      keyof Housekeeping,
      z.ZodInt
    >,
  )
  .partial()

type Json = z.core.util.JSONType

const MESSAGE_PROTO = 'must not have the key __proto__'

/** Records lose this key without a word: a filter by it would find everything. Only for what is known not to be too deep. */
function hasNoProto(given: unknown): boolean {
  if (typeof given !== 'object' || given === null) return true
  return !Object.hasOwn(given, '__proto__') && Object.values(given).every(hasNoProto)
}

const metadata = z
  // First, because what is looked at here may be endless, and whatever comes after it descends into all of it.
  .custom<Record<string, Json>>(
    isShallow,
    `must be JSON of ${METADATA_LEVELS_MAX} levels and ${METADATA_BYTES_MAX} bytes at most, of text without NUL and without half characters`,
  )
  .pipe(z.custom<Record<string, Json>>(hasNoProto, MESSAGE_PROTO))
  .pipe(z.record(z.string().max(TAG_CHARS_MAX), z.json()))
  .refine(
    (value) => Buffer.byteLength(JSON.stringify(value)) <= METADATA_BYTES_MAX,
    `must not be more than ${METADATA_BYTES_MAX} bytes as JSON`,
  )

/** Whether a value can be written as JSON at all: not a circle, not bottomless, and of nothing that Postgres cannot keep. */
function isShallow(given: unknown): boolean {
  let level = [given]
  let seen = 0
  for (let depth = 0; level.length > 0; depth++) {
    seen += level.length // every value is a byte at least
    if (depth > METADATA_LEVELS_MAX || seen > METADATA_BYTES_MAX) return false
    if (level.some((value) => typeof value === 'string' && !isStorable(value))) return false
    const nested = level.filter((value) => typeof value === 'object' && value !== null) as object[]
    if (nested.some((value) => !Object.keys(value).every(isStorable))) return false
    level = nested.flatMap((value) => Object.values(value))
  }
  return true
}

const asking = {
  /** Waits so long for the operation to settle. Without it, the call returns when the request is accepted. */
  wait: duration(0, WAIT_MS_MAX).optional(),
  /** The same key with the same request is the same operation, however often it is sent. */
  idempotencyKey: text(255).optional(),
  /** Ends the waiting. What was accepted is carried out all the same. */
  signal: z.instanceof(AbortSignal).optional(),
}

export const backendName = text(BACKEND_CHARS_MAX)

const making = {
  backend: backendName,
  ttl: Ttl.optional(),
  metadata: metadata.optional(),
  agentThreadId: text(512).optional(),
  ...asking,
}

export const SpawnRequest = z.strictObject({ ...Spec.shape, ...making })

export const AdoptRequest = z.strictObject({
  ...Spec.omit({ from: true }).shape,
  ...making,
  /** The provider's name for the instance. */
  ref: text(512),
  /** What it can be resumed from, for a provider that does not show it with a suspended instance. */
  checkpointRef: text(512).optional(),
})

export const PauseRequest = z.strictObject({
  /** Ends the sandbox when its backend cannot pause. Without it, such a request is refused. */
  ifUnsupported: z.literal('kill').optional(),
  /**
   * What becomes of executions in it: the pause waits until they have ended, or ends them. Without it, such a request is refused.
   * One that waits gives way when something else is asked of the sandbox.
   */
  ifBusy: z.enum(['wait', 'interrupt']).optional(),
  ...asking,
})

export const ResumeRequest = z.strictObject({
  /** Replaces a sandbox that cannot be woken by a fresh one under the same id. */
  ifLost: z.literal('respawn').optional(),
  /** Wakes it without its wake commands and without its preview, for example to mend what keeps them from working. */
  skipHooks: z.boolean().optional(),
  ...asking,
})

export const SnapshotRequest = z.strictObject({
  name: z
    .string()
    .regex(/^[\w.-]{1,128}$/, 'must be 1 to 128 letters, digits, _, . and -')
    .optional(),
  ...asking,
})

export const TeardownRequest = z.strictObject(asking)

export const ExecuteRequest = z.strictObject({
  /** What is run inside as the agent. Left out: the execution follows the agent that the sandbox was made with. */
  command: command.optional(),
  /** Does not wake a sandbox that sleeps. Without it, it is woken first. */
  ifSuspended: z.literal('refuse').optional(),
  /** Replaces a sandbox that is lost by a fresh one under the same id, and runs there. */
  ifLost: z.literal('respawn').optional(),
  /** From now on. Then the agent is stopped, whatever it does. Defaults to 24 hours. */
  deadline: duration(LIMIT_MS_MIN, DURATION_MS_MAX).default(DEADLINE_MS),
  /** Without output for so long, the agent is stopped. */
  silence: duration(LIMIT_MS_MIN, DURATION_MS_MAX).optional(),
  /** How much of its output is kept. Defaults to 64 MiB. */
  outputBytesMax: z.int().min(1).max(OUTPUT_BYTES_MAX).default(OUTPUT_BYTES),
  ...asking,
})

export const OutputRequest = z.strictObject({
  /** The byte to begin with. */
  from: z.int().min(0).default(0),
  signal: z.instanceof(AbortSignal).optional(),
})

export const SweepRequest = z
  .strictObject({
    /** Looks, and says what it would do. Without it, what was seen twice is seen to. */
    dryRun: z.boolean().default(false),
    /** Only this one. */
    backend: backendName.optional(),
    /** Believes for an hour what is shown, however much has vanished: for somebody who has looked, and knows that it is true. */
    believe: z.boolean().default(false),
    /** How long to wait for the workers. What they find later is in the next report. */
    wait: duration(0, WAIT_MS_MAX).default(60_000),
    signal: z.instanceof(AbortSignal).optional(),
  })
  // A sweep by itself would act on what is believed.
  .refine(({ dryRun, believe }) => !(dryRun && believe), {
    path: ['believe'],
    message: 'is not for a dry run: what is believed is acted on',
  })

export const WaitRequest = z.strictObject({ wait: asking.wait, signal: asking.signal })

const ID_BEGINNING = new RegExp(`^${ID_PREFIXES.sandbox}_[0-9a-f]{0,${ID_DIGITS}}$`)

/** The id of something, in words for who has sent another text. */
function idOf(of: Identified, message: string) {
  return z.string().refine((given) => isIdOf(of, given), message)
}

const MESSAGE_CURSOR = 'must be a cursor that an earlier page gave'

const limit = z.int().min(1).max(PAGE_MAX).default(PAGE)

/** More than this is nobody's search, and each is one more index to walk. */
const METADATA_PAIRS_MAX = 5
const tagged = z.string().max(TAG_CHARS_MAX).refine(isStorable)

/** All of it has to be true of a sandbox. A page may hold fewer than `limit`, also none, as long as there is a cursor for the next. */
export const ListRequest = z.strictObject({
  state: z.enum(STATES).optional(),
  backend: backendName.optional(),
  /** The beginning of its id. */
  id: z
    .string()
    .regex(ID_BEGINNING, `must be the beginning of the id of a sandbox: sbx_ and up to ${ID_DIGITS} of 0-9 and a-f`)
    .optional(),
  /**
   * Plain values on the first level of its metadata, compared as text: 5 and "5" are the same. Nothing is found by what is nested,
   * null, or longer than 256 characters; and of one sandbox by no more than 64 of its values, those with the shortest names.
   */
  metadata: z
    .custom<Record<string, string | number | boolean>>(
      (given) => !Object.hasOwn(Object(given), '__proto__'),
      MESSAGE_PROTO,
    )
    .pipe(
      z.record(
        text(TAG_CHARS_MAX),
        z.union([tagged, z.number(), z.boolean()], 'must be text, a number, true or false'),
      ),
    )
    .refine(
      (pairs) => Object.keys(pairs).length <= METADATA_PAIRS_MAX,
      `must not be more than ${METADATA_PAIRS_MAX} pairs`,
    )
    .optional(),
  cursor: idOf('sandbox', MESSAGE_CURSOR).optional(),
  limit,
})

export const ExecutionsRequest = z.strictObject({
  sandboxId: idOf('sandbox', 'must be the id of a sandbox').optional(),
  status: z.enum(EXECUTION_STATUSES).optional(),
  cursor: idOf('execution', MESSAGE_CURSOR).optional(),
  limit,
})

export const OperationsRequest = z.strictObject({
  cursor: idOf('operation', MESSAGE_CURSOR).optional(),
  limit,
})

export const CheckpointsRequest = z.strictObject({
  cursor: idOf('checkpoint', MESSAGE_CURSOR).optional(),
  limit,
})

/** Of one who watches: a page of them, and no more. */
const WATCHED_MAX = 100

export const ChangesRequest = z.strictObject({
  sandboxIds: z.array(idOf('sandbox', 'must be the id of a sandbox')).max(WATCHED_MAX).default([]),
  /** Also when the fleet has a new one. */
  newest: z.boolean().default(false),
  signal: z.instanceof(AbortSignal).optional(),
})

export const EventsRequest = z.strictObject({
  cursor: z
    .string()
    .regex(/^\d{1,15}$/, MESSAGE_CURSOR)
    .optional(),
  limit,
})

/** The request as it is meant, or an error that names every field that is wrong. */
export function parseRequest<Schema extends z.ZodType>(schema: Schema, given: unknown): z.output<Schema> {
  return parse(schema, given, '(request)')
}
