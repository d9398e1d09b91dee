import { INVARIANTS } from '../src/db/invariants.ts'
import { isSandmanError } from '../src/errors.ts'
import type { Event, EventName, Events } from '../src/events.ts'
import type { Life } from './life.ts'
import type { World } from './world.ts'

/** Events that are told in the trace: what a reader of it wants to know of a worker. */
const TOLD: readonly EventName[] = [
  'operation.taken',
  'operation.settled',
  'operation.undecided',
  'operation.left_over',
  'operation.rung_again',
  'execution.ended',
  'execution.interrupted',
  'execution.set_back',
  'execution.broke',
  'execution.left_over',
  'reaper.asked',
  'sweep.suspects',
  'sweep.acted',
  'sweep.stopped',
  'sweep.failing',
  'job.snoozed',
  'job.failed',
  'job.gave_up',
]

const SETTLES: readonly EventName[] = ['operation.settled', 'execution.ended']

type Invariant = keyof typeof INVARIANTS

/** A job that no attempt could ever carry out: nobody but a bug makes one. */
const NEVER = ['payload_invalid', 'operation_not_found', 'execution_not_found'] as const

/** What a process says of itself goes into the trace, and what it must never say is a finding. */
export function listenTo({ trace, engine, findings, settled }: World, life: Life, events: Events): void {
  events.subscribe((event) => {
    if (TOLD.includes(event.name)) trace.tell(engine.elapsedMs, life.name, describe(event))
    const { name, fields } = event
    if (SETTLES.includes(name)) for (const hear of [...settled]) hear(String(fields.sandboxId))
    if (name === 'invariant.violated')
      findings.add(INVARIANTS[fields.invariant as Invariant], String(fields.sandboxId), String(fields.seen))
    if (name === 'job.gave_up' && NEVER.some((code) => isSandmanError(fields.error, code)))
      findings.add('every job can be read', String(fields.queue), String(fields.error))
  })
}

function describe({ name, fields }: Event): string {
  const { error, ...rest } = fields
  const why = error instanceof Error ? ` error=${error.message}` : ''
  return `${name} ${Object.entries(rest)
    .map(([key, value]) => `${key}=${typeof value === 'object' ? JSON.stringify(value) : String(value)}`)
    .join(' ')}${why}`
}
