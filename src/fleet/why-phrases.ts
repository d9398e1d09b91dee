import type { OperationRow } from '../db/schema.ts'
import type { Failure } from '../sandbox/failures.ts'
import type { FindingKind, Look } from '../sandbox/findings.ts'
import type { Kind } from '../sandbox/judge.ts'
import type { LimitName } from '../sandbox/limits.ts'
import type { GoneReason } from '../sandbox/states.ts'
import { checkpointSize, duration, inWords, when } from './words.ts'

/** What a story says again and again: who asked for what, why something is gone, what was seen, and how something failed. */

const GONE: Record<GoneReason, string> = {
  killed: 'it was killed, as was asked',
  destroyed: 'it was destroyed with its checkpoints, as was asked',
  expired: 'its provider has nothing of it any more: its time-to-live ended, or somebody deleted it there',
  pause_unsupported: 'its backend cannot pause, and whoever asked for the pause had said to end it then',
  checkpoint_missing: 'there is no checkpoint that it could be woken from',
  checkpoint_corrupt: 'the checkpoint that it should be woken from is not whole',
  instance_lost: 'its provider has lost it, and nothing of it can be resumed',
  spawn_failed: 'it could not be made',
  replaced: 'a fresh one took its place',
}

const LIVED: Record<LimitName, string> = { hard: 'had lived', retention: 'had slept', idle: 'had idled' }

export const FOUND: Record<FindingKind, string> = {
  instance_missing: 'it should be there, and its provider has nothing of it',
  checkpoint_missing: 'a checkpoint of it is missing, or cannot be read',
  instance_unowned: 'an instance carries its label, and belongs to no sandbox that lives',
  checkpoint_unowned: 'a checkpoint carries its label, and nothing rests on it and nobody was promised it',
}

/** Why an execution asks for this. */
const NEEDED: Partial<Record<Kind, string>> = {
  resume: ', because it has to run there',
  kill: ', because it found it lost',
  pause: ', because it found it asleep',
}

/** Who asked for what, and by what right. */
export function asked({ kind, options, cause }: OperationRow, verb: 'asked' | 'had asked' = 'asked'): string {
  const what = wish(kind, options)
  switch (cause?.by) {
    case undefined:
      return `an app ${verb} ${what}`
    case 'reaper': {
      const whose = cause.of === 'sandbox' ? 'its own' : "its fleet's"
      const limit = `${duration(cause.limit_ms)}, counted from ${when(cause.since)}`
      return `the reaper ${verb} ${what}, because it ${LIVED[cause.limit]} for as long as ${whose} limit allows (${limit})`
    }
    case 'sweeper':
      return `the sweeper ${verb} ${what}, because ${FOUND[cause.found]} (${cause.ref})`
    case 'lease':
      return `its provider had put it to sleep when its time there was over (${when(cause.ends_at)}), so it was ${verb} ${what}`
    case 'execution':
      return `execution ${cause.execution_id} ${verb} ${what}${NEEDED[kind] ?? ''}`
  }
}

function wish(kind: Kind, options: OperationRow['options']): string {
  switch (kind) {
    case 'spawn': {
      const { adopt, from } = options as { adopt?: { ref?: string }; from?: string }
      return adopt?.ref ? `to take over ${adopt.ref}` : from ? `to make it from ${from}` : 'to make it'
    }
    case 'pause':
      if (options.only === 'asleep') return 'to write down that it sleeps'
      return options.if_unsupported === 'kill' ? 'to pause it, or to end it if its backend cannot' : 'to pause it'
    case 'resume':
      return options.if_lost === 'respawn' ? 'to wake it, or to replace it if it is lost' : 'to wake it'
    case 'snapshot':
      return options.name === undefined ? 'to copy it' : `to copy it as "${options.name}"`
    case 'kill':
    case 'destroy':
      return options.only === 'lost' ? 'to end it if it is lost' : `to ${kind} it`
  }
}

/** What the sweeper had seen before it asked. */
export function looksOf({ cause }: OperationRow): string[] {
  return cause?.by === 'sweeper' ? cause.looks.map(look) : []
}

export function look({ at, place, asked, saw }: Look, index: number): string {
  return `Look ${index + 1}, on ${when(at)} at ${place}: asked for ${asked}, and saw that ${saw}`
}

export function goneBecause(reason: string | null | undefined): string {
  return reason && reason in GONE ? GONE[reason as GoneReason] : 'the reason is not kept'
}

export function failed({ error_type, message }: Failure): string {
  return `failed as ${inWords(error_type)}: ${withoutStop(message)}`
}

export function describe(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return value.map(describe).join(', ')
  if (typeof value !== 'object') return String(value)
  return Object.entries(value)
    .map(([key, inner]) => `${inWords(key)} ${describe(inner)}`)
    .join(', ')
}

export function sentences(...parts: (string | false | null | undefined)[]): string {
  return parts
    .filter((part) => part)
    .map((part) => `${withoutStop(part as string)}.`)
    .join(' ')
}

function withoutStop(text: string): string {
  return text.replace(/[\s.]+$/, '')
}

export function sizeOf(bytes: unknown): string {
  const told = checkpointSize(bytes)
  return told && ` (${told})`
}
