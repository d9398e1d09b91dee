import { type Failure, type FailureType, failure } from './failures.ts'
import {
  IN_FLIGHT_STATES,
  type InFlightState,
  isSettled,
  type MoveName,
  moveBetween,
  SETTLED_STATES,
  type SettledState,
  type State,
} from './states.ts'

/** What can be asked of a sandbox. */
export const KINDS = ['spawn', 'pause', 'resume', 'snapshot', 'kill', 'destroy'] as const
export type Kind = (typeof KINDS)[number]

/** What a caller allows besides, as it is stored with the operation. Requests are equal when kind and options are. */
export type Options = {
  if_unsupported?: 'kill'
  if_lost?: 'respawn'
  /** What a pause does with executions that run: without it, it is refused. To ignore them is for what sleeps already. */
  if_busy?: 'wait' | 'interrupt' | 'ignore'
  hooks?: 'skip'
  name?: string
  /**
   * Of a kill: only what its provider has lost is ended. Of a pause: only what its provider has put to sleep is written down as
   * suspended, if it can be resumed. What runs is left alone.
   */
  only?: 'lost' | 'asleep'
}

/** What a request does with a sandbox that rests. */
export type Ruling =
  | { answer: 'work'; state: InFlightState }
  | { answer: 'already_done' }
  | { answer: 'refused'; because: FailureType }

/** A condition under which another ruling holds than the usual one. */
export type Condition = 'backend_cannot' | 'busy' | 'backend_cannot_and_may_kill' | 'may_respawn'

type Rulings = { usually: Ruling } & Partial<Record<Condition, Ruling>>

const work = (state: InFlightState): Ruling => ({ answer: 'work', state })
const alreadyDone: Ruling = { answer: 'already_done' }
const refused = (because: FailureType): Ruling => ({ answer: 'refused', because })

/**
 * What a request does, judged against the state a sandbox rests in. Kill frees compute: on a suspended sandbox there is none
 * left to free, so the kill is done, whether it arrived during the pause or a year later. Destroy means: and forget it.
 */
export const JUDGEMENTS = {
  running: {
    spawn: { usually: alreadyDone },
    pause: {
      usually: work('pausing'),
      backend_cannot: refused('pause_unsupported'),
      busy: refused('sandbox_busy'),
      backend_cannot_and_may_kill: work('killing'),
    },
    resume: { usually: alreadyDone },
    snapshot: { usually: work('snapshotting'), backend_cannot: refused('snapshot_unsupported') },
    kill: { usually: work('killing') },
    destroy: { usually: work('killing') },
  },
  suspended: {
    spawn: { usually: alreadyDone },
    pause: { usually: alreadyDone },
    resume: { usually: work('resuming') },
    snapshot: { usually: alreadyDone },
    kill: { usually: alreadyDone },
    destroy: { usually: work('killing') },
  },
  gone: {
    spawn: { usually: refused('sandbox_gone') },
    pause: { usually: refused('sandbox_gone') },
    resume: { usually: refused('sandbox_gone'), may_respawn: work('provisioning') },
    snapshot: { usually: refused('sandbox_gone') },
    kill: { usually: alreadyDone },
    destroy: { usually: alreadyDone },
  },
} as const satisfies Record<SettledState, Record<Kind, Rulings>>

/**
 * While an operation is in flight, a request waits for its turn and is then judged by the table above. These are the
 * exceptions, so that nobody queues nonsense: what would be copied is being taken away.
 */
export const REFUSED_AT_ONCE: Partial<Record<Kind, readonly InFlightState[]>> = {
  snapshot: ['pausing', 'killing'],
}

/** How many requests may wait in one sandbox's line. More is somebody's loop, and is told so. */
export const LINE_MAX = 16

/**
 * Where a request stands when it arrives. It joins only its equal at the very end of the line: joining one further ahead
 * would overtake what was asked in between, and then the end would depend on who came a millisecond earlier.
 */
export const PLACES = ['behind_equal', 'behind_other', 'line_full'] as const
type Place = (typeof PLACES)[number]

export type Verdict = Ruling | { answer: 'wait' } | { answer: 'join' }

export type Request = { kind: Kind; options: Options }

/** What is true of a sandbox besides its state. `able`: its backend can do this kind of thing. `busy`: executions run in it. */
export type Circumstances = { able: boolean; busy: boolean }

/** What a request does with a sandbox in this state. */
export function judge(request: Request, state: SettledState, circumstances: Circumstances): Ruling
export function judge(request: Request, state: State, circumstances: Circumstances, place: Place): Verdict
export function judge(
  request: Request,
  state: State,
  circumstances: Circumstances,
  place: Place = 'behind_other',
): Verdict {
  const { kind, options } = request
  if (isSettled(state)) {
    const rulings: Rulings = JUDGEMENTS[state][kind]
    const unusual = conditions(options, circumstances).find((condition) => rulings[condition])
    return (unusual && rulings[unusual]) ?? rulings.usually
  }
  if (REFUSED_AT_ONCE[kind]?.includes(state)) return refused('invalid_transition')
  if (place === 'behind_equal') return { answer: 'join' }
  return place === 'line_full' ? refused('rate_limited') : { answer: 'wait' }
}

/** The conditions that hold, the most particular first. */
function conditions(options: Options, { able, busy }: Circumstances): Condition[] {
  const mayKill = options.if_unsupported === 'kill'
  const inOrder: [Condition, boolean][] = [
    ['backend_cannot', !able && !mayKill],
    // Also when it would be killed instead: what runs in it would be lost.
    ['busy', busy && options.if_busy === undefined],
    ['backend_cannot_and_may_kill', !able && mayKill],
    ['backend_cannot', !able],
    ['may_respawn', options.if_lost === 'respawn'],
  ]
  return inOrder.flatMap(([condition, holds]) => (holds ? [condition] : []))
}

/** A verdict as the database writes it down: with the name of the move, or with the error in full. */
export type WrittenVerdict =
  | { answer: 'work'; state: InFlightState; move: MoveName }
  | { answer: 'refused'; error: Failure }
  | { answer: 'already_done' | 'wait' | 'join' }

/**
 * Everything a request may be told, for whatever it may find. The database looks at the sandbox under its lock, picks from
 * this, and decides nothing itself; a request that has to wait keeps what it may be told when its turn comes.
 */
type Judgement = {
  resting: Record<'able' | 'unable', Record<SettledState, WrittenVerdict & { if_busy?: WrittenVerdict }>>
  in_flight: Record<InFlightState, Record<Place, WrittenVerdict>>
}

export function judgementOf(request: Request, sandboxId: string): Judgement {
  const write = (verdict: Verdict, state: State): WrittenVerdict => {
    if (verdict.answer === 'work') return { ...verdict, move: moveBetween(state, verdict.state) as MoveName }
    if (verdict.answer !== 'refused') return verdict
    const message = explainRefusal(verdict.because, request.kind, state, sandboxId)
    return { answer: 'refused', error: failure(verdict.because, message) }
  }
  const resting = (able: boolean) =>
    mapTo(SETTLED_STATES, (state) => {
      const [usually, ifBusy] = [false, true].map((busy) => write(judge(request, state, { able, busy }), state))
      return { ...(usually as WrittenVerdict), ...(ifBusy?.answer !== usually?.answer && { if_busy: ifBusy }) }
    })
  return {
    resting: { able: resting(true), unable: resting(false) },
    in_flight: mapTo(IN_FLIGHT_STATES, (state) =>
      mapTo(PLACES, (place) => write(judge(request, state, { able: true, busy: false }, place), state)),
    ),
  }
}

function explainRefusal(because: FailureType, kind: Kind, state: State, sandboxId: string): string {
  switch (because) {
    case 'sandbox_gone':
      return kind === 'resume'
        ? `${sandboxId} is gone and cannot be resumed: ask with "if lost: respawn" to start afresh under the same id, or spawn a new sandbox.`
        : `${sandboxId} is gone, so there is nothing to ${kind}: spawn a new sandbox, or resume this one with "if lost: respawn".`
    case 'pause_unsupported':
      return `${sandboxId} keeps running: its backend cannot pause. Ask with "if unsupported: kill" to end it instead.`
    case 'snapshot_unsupported':
      return `${sandboxId} keeps running: its backend cannot take a snapshot of a running sandbox.`
    case 'sandbox_busy':
      return `${sandboxId} keeps running: executions run in it. Ask with "if busy: wait" to pause it when they have ended, or "if busy: interrupt" to end them.`
    case 'rate_limited':
      return `${LINE_MAX} requests already wait for ${sandboxId}: ask again when some of them have settled.`
    default:
      return `A ${kind} of ${sandboxId} is not possible while it is ${state}: ask again when that is over.`
  }
}

function mapTo<Key extends string, Value>(keys: readonly Key[], value: (key: Key) => Value): Record<Key, Value> {
  return Object.fromEntries(keys.map((key) => [key, value(key)])) as Record<Key, Value>
}
