/** Where a sandbox rests until somebody asks for something. Requests are judged against these, and only these. */
export const SETTLED_STATES = ['running', 'suspended', 'gone'] as const

/** Where a sandbox is while an operation works on it. Requests that arrive meanwhile wait in its line. */
export const IN_FLIGHT_STATES = ['provisioning', 'pausing', 'resuming', 'snapshotting', 'killing'] as const

export const STATES = [...SETTLED_STATES, ...IN_FLIGHT_STATES] as const

export type SettledState = (typeof SETTLED_STATES)[number]
export type InFlightState = (typeof IN_FLIGHT_STATES)[number]
export type State = (typeof STATES)[number]

/** Why a sandbox is gone. There is always a reason. */
export const GONE_REASONS = [
  'killed',
  'destroyed',
  'expired',
  'pause_unsupported',
  'checkpoint_missing',
  'checkpoint_corrupt',
  'instance_lost',
  'spawn_failed',
  // Never written here, where who replaces a sandbox goes on under its id: for one that is imported, and had made way for another.
  'replaced',
] as const

export type GoneReason = (typeof GONE_REASONS)[number]

/**
 * Every legal move, with the name that history gives it: from, to, name. A move that is missing here is refused, never
 * ignored. `gone` is final: only a resume that explicitly asked for a respawn begins a new life under the same id.
 */
export const TRANSITIONS = {
  provisioning: { running: 'spawned', suspended: 'adopted', gone: 'ended' },
  running: { pausing: 'pause_began', snapshotting: 'snapshot_began', killing: 'teardown_began', gone: 'ended' },
  snapshotting: { running: 'snapshot_ended', suspended: 'paused', gone: 'ended' },
  pausing: { suspended: 'paused', running: 'pause_failed', gone: 'ended' },
  suspended: { resuming: 'resume_began', killing: 'teardown_began', gone: 'ended' },
  resuming: { running: 'resumed', suspended: 'resume_failed', gone: 'ended' },
  killing: { gone: 'ended', running: 'teardown_failed', suspended: 'teardown_failed' },
  gone: { provisioning: 'respawn_began' },
} as const satisfies Record<State, Partial<Record<State, string>>>

/** How a sandbox comes into being. */
export const ENTRIES = {
  provisioning: 'spawn_began',
  running: 'adopted',
  suspended: 'adopted',
} as const satisfies Partial<Record<State, string>>

type NamesIn<Table> = Table extends Record<string, infer Row> ? (Row extends string ? Row : Row[keyof Row]) : never

/** What an event about a sandbox's state is called. */
export type MoveName = NamesIn<typeof ENTRIES> | { [From in State]: NamesIn<(typeof TRANSITIONS)[From]> }[State]

/** The name of the move between two states, or undefined when there is none. From null, a sandbox comes into being. */
export function moveBetween(from: State | null, to: State): MoveName | undefined {
  const moves: Partial<Record<State, MoveName>> = from === null ? ENTRIES : TRANSITIONS[from]
  return moves[to]
}

/** Every move that ends in `to`, by the state it starts from: what a statement needs that only learns there where it is. */
export function movesInto(to: State): Partial<Record<State, MoveName>> {
  return Object.fromEntries(STATES.map((from) => [from, moveBetween(from, to)]).filter(([, name]) => name))
}

export function isSettled(state: State): state is SettledState {
  return (SETTLED_STATES as readonly State[]).includes(state)
}
