import type { FailureType } from '../sandbox/failures.ts'
import type { Spec } from './spec.ts'

/**
 * What Sandman needs of a provider. A backend belongs to one fleet: all that it makes carries the fleet's label, and it never
 * touches anything that carries another one, or none.
 *
 * What every method promises:
 * - **May be called again.** Whoever asked may have died before it heard the answer, so the same call twice ends as once.
 * - **Can be given up.** `call.signal` ends the waiting, not necessarily the work. Whoever calls has a deadline besides. Nothing
 *   is begun when it is aborted already.
 * - **Claims nothing it has not seen.** *Not found* is said only when the provider says it of that very object. A timeout, a
 *   reset, a gateway's 404 or a text that cannot be read is `sandbox_unreachable`.
 * - **Fails with a `BackendError`**, by the provider's codes. Anything else that is thrown is a bug, and tried again as one.
 *
 * What a backend cannot do is `'none'`: there is no method to call, so nothing can pretend.
 */
export type Backend = {
  readonly name: string

  /** Every instance that carries this sandbox's label, of whichever life: found again after a lost answer or a crash. */
  find(sandboxId: string, call: Call): Promise<Found[]>
  /**
   * Makes an instance, labelled with its owner before it can be lost, and starts in it what its spec says. It may still be
   * starting: `look` tells. Asked again for the same life, it makes no second one, and finishes what an earlier call has left
   * half done.
   */
  create(wanted: Wanted, call: Call): Promise<{ ref: string }>
  /** Takes over an instance that somebody else made, and labels it where the provider can. Not found: `sandbox_expired`. */
  adopt(ref: string, owner: Owner, call: Call): Promise<void>
  /** What is true of an instance right now, by its ref and never from a list. */
  look(ref: string, call: Call): Promise<Sighting>
  /**
   * Ends an instance for good, whatever it is doing: also one that is still starting, or only remains. One that is not there has
   * ended, and one that has ended is `absent`. What it can be resumed from may go with it.
   */
  end(target: Target, call: Call): Promise<void>

  /** Runs a shell command inside and waits for its end. Not for agents: those have ends and outputs that are kept. */
  run(target: Target, command: string, call: Call): Promise<{ exitCode: number; output: string }>
  /** Ends what earlier commands have left running, those that ran as agents included, and neither its own agent nor its sidecar. */
  endLingering(target: Target, call: Call): Promise<void>
  /** Where a port of the sandbox is reached from outside; undefined when it is not. */
  previewUrl(ref: string, port: number, call: Call): Promise<string | undefined>

  /**
   * Runs a command inside as an agent of its own. Its output and its end are kept for as long as the instance lives, whoever
   * asks for them. The same key starts it once, also when it has ended since.
   */
  startAgent(target: Target, asked: { key: string; command: readonly string[] }, call: Call): Promise<void>
  /** Ends an agent with all that it has started: asked to at first, and killed if it does not. One that has ended is a success. */
  stopAgent(agent: Agent, call: Call): Promise<void>
  /** Of the agent's own process, whatever runs beside it. It may lag behind the output's end for some seconds. */
  agentStatus(agent: Agent, call: Call): Promise<AgentStatus>
  /**
   * The agent's output, as it is written, from just behind a cursor or from its beginning. It ends when there will be no more,
   * and may end before that: only a piece that says so is the last. Nothing is read ahead of who reads it by more than a few pieces.
   */
  attach(agent: Agent, cursor: string | undefined, call: Call): AsyncIterable<Piece>

  /** All there is of this fleet. A list alone never proves anything: what it shows may be old, and what it lacks may be there. */
  readonly lists: Lists

  readonly pausing: 'none' | Pausing
  readonly snapshots: 'none' | Snapshots
  /** A provider's own time-to-live, at the end of which it ends or pauses an instance by itself. */
  readonly lease: 'none' | Lease

  close(): Promise<void>
}

export type Lists = {
  /**
   * Where these lists come from. Workers with the same credentials have the same place; two machines have two. Undefined where
   * nothing was ever made.
   */
  place(call: Call): Promise<Place | undefined>
  /** Everything that carries this fleet's label, whichever state it is in, and nothing that carries another one, or none. */
  instances(cursor: string | undefined, call: Call): Promise<Listing<ListedInstance>>
  /** Those with names of their own; none where instance and checkpoint are one. */
  checkpoints: 'none' | ((cursor: string | undefined, call: Call) => Promise<Listing<ListedCheckpoint>>)
}

export type Place = {
  name: string
  /** Whether something of this name would be in these lists. */
  holds(ref: string): boolean
}

/** A page. Without `next` it is the last one; a cursor that is too old may fail, and the list is begun again. */
export type Listing<Listed> = { items: Listed[]; next: string | undefined }

export type ListedInstance = Owner & {
  ref: string
  /** The list itself shows that only remains are left, or that it cannot be woken. It is looked at by its name before that is believed. */
  isLost?: true
}
export type ListedCheckpoint = { ref: string; sandboxId: string; kind: 'pause' | 'snapshot' }

export type Pausing = Checkpoints & {
  /** What a resumed sandbox still has of what it had: its processes, or only its files. */
  readonly preserves: 'memory' | 'disk'
  /**
   * True where waking uses the checkpoint up, or instance and checkpoint are one: afterwards there is nothing to discard. False
   * where every pause leaves a checkpoint with a name of its own, which then has to be discarded.
   */
  readonly consumesCheckpoint: boolean
  /** False where an instance that sleeps is woken without it: then a checkpoint that is gone is no reason to end its sandbox. */
  readonly needsCheckpoint: boolean
  /** True where `look` shows one as suspended before its pause is over. To suspend it again is then to wait for that. */
  readonly isShownEarly?: true
  /**
   * Whether a checkpoint is of an earlier run than this incarnation. Some providers keep what was written at an earlier pause, and
   * show it again when they have lost what ran since: then the sandbox seems to sleep, and is not what it was. Left out where
   * that cannot be.
   */
  precedes?(checkpointRef: string, incarnation: string): boolean
  /**
   * Puts an instance to sleep. One that sleeps already is a success. Tells the checkpoint if the provider has told it; if not,
   * or if the answer is lost, `look` has to show it.
   */
  suspend(target: Target, asked: { key: string }, call: Call): Promise<{ checkpointRef: string | undefined }>
  /**
   * Wakes it, as a new incarnation. One that is awake already is a success. Where only the disk was kept, the sandbox's own agent
   * has ended with the pause, and is started again by this: nobody else does. Fails with `checkpoint_missing` or
   * `checkpoint_corrupt` when there is nothing whole to wake it from, and with `sandbox_expired` when there is no trace of it.
   */
  resume(sleeping: { ref: string; checkpointRef: string | undefined }, asked: Waking, call: Call): Promise<void>
}

export type Snapshots = Checkpoints & {
  /** Copies a running instance. The same key gives the same snapshot, and never a second one. */
  take(target: Target, asked: { key: string; name: string | undefined }, call: Call): Promise<{ checkpointRef: string }>
}

export type Checkpoints = {
  /** Looks at the checkpoint itself, not at what was said of it. Still being written, or the pause not over: `pending`. */
  verify(checkpointRef: string, call: Call): Promise<CheckpointCondition>
  /** One that is not there has been deleted. Never ends an instance, also where the two are one. */
  discard(checkpointRef: string, call: Call): Promise<void>
}

export type Lease = {
  /** From now on; more than the provider allows is its maximum. `look` shows what the provider made of it. */
  set(target: Target, ttlMs: number, call: Call): Promise<void>
}

export type Call = { signal: AbortSignal }

/** Whose instance it is. A life is begun by one spawn, or one respawn, and named by that operation. */
export type Owner = { sandboxId: string; life: string }

export type Found = { ref: string; life: string }

export type Wanted = Owner & {
  spec: Spec
  /** What its files begin as. */
  checkpointRef: string | undefined
  /** More than the provider allows is its maximum. */
  ttlMs: number
}

/** The key names the operation: however often it is asked for, a resume with this key makes one new incarnation. */
export type Waking = { key: string; ttlMs: number }

/**
 * Which instance is meant. A call that was meant for another incarnation than the one that is there fails as `overtaken`, so
 * that a late one cannot hit a resumed sandbox. Null means: only while it does not run.
 */
export type Target = { ref: string; incarnation: string | null }

export type Sighting =
  /** The incarnation is the same for as long as it has not been suspended, ended or restarted, and never comes again. */
  | { is: 'running'; incarnation: string; endsAt?: Date }
  /** Asleep, with what it can be resumed from, as far as the provider shows that. `broken`: why it cannot be, where that is known. */
  | { is: 'suspended'; checkpointRef: string | undefined; broken?: string }
  /** On its way somewhere: to be looked at again. It can be ended all the same, by its incarnation if it has one. */
  | { is: 'changing'; why: string; incarnation?: string }
  /** Nothing of it can be used or resumed. There are remains, which may even run, and have to be ended. */
  | { is: 'lost'; why: string }
  /** The provider says that there is no such thing. */
  | { is: 'absent' }

export type CheckpointCondition =
  | { is: 'ready'; sizeBytes?: number }
  /** Still being written. */
  | { is: 'pending' }
  | { is: 'missing' | 'corrupt'; why: string }

/** The agent that an instance was made with, or, by its key, one that was started in it; in the incarnation that is meant. */
export type Agent = { ref: string; incarnation: string; key: string | undefined }

/** A piece of output. With its cursor, the next attach begins right behind it. */
export type Piece = {
  bytes: Uint8Array
  cursor: string
  /**
   * The agent has ended, and with this its output. Said only by a backend that knows: that a stream has ended does not mean it,
   * and one that cannot know says it never. There may be no bytes in it.
   */
  isLast?: true
}

export type AgentStatus =
  | { is: 'running' }
  /** `oomKilled` is undefined where the system cannot tell. */
  | { is: 'terminated'; exitCode: number | null; signal: string | null; oomKilled: boolean | undefined }
  /** It, or the whole instance, has begun anew: what was meant has ended, and nobody can say how. */
  | { is: 'restarted'; why: string }
  /** The instance sleeps, and the agent with it. */
  | { is: 'asleep' }
  /** There is no such agent: the instance was made without one, or none was started with that key. */
  | { is: 'none' }

/** The exit code of what SIGKILL has ended, as shells and container runtimes tell it. */
export const EXIT_CODE_KILLED = 128 + 9

/** What a backend may fail with. The last two are for whoever made the call; all others are what an operation may be told. */
export const BACKEND_ERRORS = [
  'sandbox_unreachable',
  'sandbox_expired',
  'checkpoint_missing',
  'checkpoint_corrupt',
  'provider_unauthorized',
  'quota_exceeded',
  'rate_limited',
  'spec_invalid',
  'overtaken',
  /** Said of a checkpoint that is to be discarded: something that lives rests on it, and it can be when that has ended. */
  'in_use',
] as const satisfies readonly (FailureType | 'overtaken' | 'in_use')[]

export type BackendErrorType = (typeof BACKEND_ERRORS)[number]

export class BackendError extends Error {
  readonly type: BackendErrorType

  constructor(type: BackendErrorType, message: string, options: { cause?: unknown } = {}) {
    super(message, options)
    this.name = 'BackendError'
    this.type = type
  }
}

/** What a request for a sandbox is judged by: all that a web app needs to know of a backend, without loading it. */
export type BackendAbilities = { readonly name: string; readonly canPause: boolean; readonly canSnapshot: boolean }

export function abilitiesOf({ name, pausing, snapshots }: Backend): BackendAbilities {
  return { name, canPause: pausing !== 'none', canSnapshot: snapshots !== 'none' }
}
