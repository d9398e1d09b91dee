import type { SandboxEventInfo } from '@agentuity/server'
import type { Call } from '../backend.ts'
import type { Account } from './account.ts'
import { ask } from './request.ts'

/** So many are asked for, the newest first. There is no page behind them. */
const EVENTS_MAX = 100
/** No answer is cut to fewer than these: so few are all there are. Of more, it is not known. */
const EVENTS_FEW = 20

/** Those that tell of a sandbox that falls asleep, in whatever words: it is paused, evacuated, or its checkpoint has come. */
const FALLS_ASLEEP = /suspend|paus|evacuat|hibernat|checkpoint/i
const WAKES = /resum|restor|unpaus|wak|started/i
const BEGINS = /^(\w+:)?create(d)?$/i
const IS_DESTROYED = /^(\w+:)?destroy(ed)?$/i
const COMES_TO_NOTHING = /fail|error|delet|request/i

export type Sleep = {
  /** When it was told of last. */
  since: Date
  /** Undefined where none was recorded. */
  checkpoint: { id: string; sizeBytes: number | undefined } | undefined
}

/** What a sandbox's own history tells. */
type History = {
  /** Which run it is, as long as it runs; undefined where nobody can tell, because what is told does not reach so far back. */
  incarnation: string | undefined
  /** Somebody has asked for its end, and that was heard. */
  isDestroyed: boolean
  /** The one that it is in, if it sleeps. Undefined where nothing was told of that, or not yet. */
  sleep: Sleep | undefined
}

/**
 * Agentuity tells nowhere when a run began, but it tells of every time that a sandbox went to sleep. So a run is named after the
 * last event of the sleep before it, and after the checkpoint that it was woken from. Events of waking are not taken for that: they
 * come when it already runs, and would make one run two.
 */
export async function readHistory(account: Account, ref: string, call: Call): Promise<History> {
  const { events } = await ask(account, call, (sdk, client, common) =>
    sdk.sandboxEventList(client, { ...common, sandboxId: ref, limit: EVENTS_MAX, direction: 'desc' }),
  )
  const newestFirst = events.toSorted((a, b) => timeOf(b) - timeOf(a))
  const isDestroyed = events.some(({ type }) => IS_DESTROYED.test(type))
  const last = newestFirst.find(isSleep)
  if (!last) {
    const isWhole = events.length < EVENTS_FEW || events.some(({ type }) => BEGINS.test(type))
    return { incarnation: isWhole ? `made-${ref}` : undefined, sleep: undefined, isDestroyed }
  }
  const from = newestFirst.filter(isSleep).map(checkpointIn).find(Boolean)
  return {
    incarnation: from ? `${last.eventId}~${from.id}` : last.eventId,
    sleep: sleepOf(newestFirst),
    isDestroyed,
  }
}

/** The checkpoint of which this run, or a run before it, was woken. */
export function isWokenFrom(incarnation: string, checkpointId: string): boolean {
  return incarnation.split('~')[1] === checkpointId
}

/**
 * What was told since it was woken last. The newest event that tells of a checkpoint counts, also when it has none: one that was
 * recorded at an earlier sleep is not what this one can be woken from.
 */
function sleepOf(newestFirst: SandboxEventInfo[]): Sleep | undefined {
  const woken = newestFirst.findIndex(isWaking)
  const told = newestFirst.slice(0, woken === -1 ? undefined : woken).filter(isSleep)
  const [last] = told
  if (!last) return undefined
  const telling = told.find((event) => /checkpoint/i.test(event.type) || checkpointIn(event))
  return { since: new Date(timeOf(last)), checkpoint: telling && checkpointIn(telling) }
}

function isWaking({ type }: SandboxEventInfo): boolean {
  return WAKES.test(type) && !COMES_TO_NOTHING.test(type)
}

function isSleep({ type }: SandboxEventInfo): boolean {
  return FALLS_ASLEEP.test(type) && !WAKES.test(type) && !COMES_TO_NOTHING.test(type)
}

function checkpointIn({ event }: SandboxEventInfo): Sleep['checkpoint'] {
  const told = Object.entries(flat(event))
  const [, id] = told.find(([name, value]) => /checkpoint_?id$/i.test(name) && isName(value)) ?? []
  const [, byShape] = told.find(([, value]) => typeof value === 'string' && /^ckpt_/.test(value)) ?? []
  const found = id ?? byShape
  if (typeof found !== 'string') return undefined
  const [, size] = told.find(([name, value]) => /(^|_)size(_?bytes)?$/i.test(name) && typeof value === 'number') ?? []
  return { id: found, sizeBytes: typeof size === 'number' ? size : undefined }
}

function isName(value: unknown): boolean {
  return typeof value === 'string' && value !== ''
}

/** With what is one level below. */
function flat(told: Record<string, unknown>): Record<string, unknown> {
  const below = Object.values(told).filter((value) => typeof value === 'object' && value !== null)
  return Object.assign({}, ...below, told)
}

function timeOf({ createdAt }: SandboxEventInfo): number {
  return Date.parse(createdAt) || 0
}
