import type { Random } from '../../proof/random.ts'
import type { Conduct } from '../conduct.ts'
import type { Engine } from '../engine.ts'
import { SimulatedAgent } from './agent.ts'

/** What a backend of the simulation is able to do, and how. */
export type Abilities = {
  name: string
  /** `named`: every pause leaves a checkpoint with a name of its own. `one`: instance and checkpoint are one. */
  pausing: 'none' | 'named' | 'one'
  /** Whether one that sleeps can be woken without its checkpoint. */
  needsCheckpoint: boolean
  preserves: 'memory' | 'disk'
  isShownEarly: boolean
  canSnapshot: boolean
  /** What the provider does by itself when time is up. */
  lease: 'none' | 'ends' | 'sleeps'
  /** Its output says when it is over. */
  tellsLast: boolean
}

export type Instance = {
  ref: string
  backend: string
  fleet: string
  sandboxId: string
  life: string
  state: 'changing' | 'running' | 'suspended' | 'lost'
  /** Shown as suspended, and still on its way there. */
  isPausing: boolean
  isEnding: boolean
  incarnation: number
  checkpointRef: string | undefined
  endsAtMs: number
  madeAtMs: number
  agents: Map<string, SimulatedAgent>
  /** Whoever waits for the pause that is under way. */
  pauseWaiters: ((failure: string | undefined) => void)[]
}

export type Checkpoint = {
  ref: string
  backend: string
  fleet: string
  of: string
  sandboxId: string
  kind: 'pause' | 'snapshot'
  condition: 'pending' | 'ready' | 'corrupt'
  madeAtMs: number
}

/** What happened to something without anybody having asked for it. */
type Mishap = { atMs: number; sandboxId: string; ref: string; what: string }

/** An incarnation that ran, and does not any more. */
export type Fall = { atMs: number; ref: string; sandboxId: string; incarnation: number; how: FallHow }
type FallHow = 'asleep' | 'lost' | 'ended' | 'restarted'

/**
 * The provider's side of everything: what there is, whatever anybody is told of it. By this, at the end, all that Sandman claims
 * is judged.
 */
export class Cloud {
  readonly engine: Engine
  readonly conduct: Conduct
  readonly random: Random
  readonly fleet: string
  readonly instances = new Map<string, Instance>()
  readonly checkpoints = new Map<string, Checkpoint>()
  /** Since when a checkpoint was whole, if ever: of no other may anybody say that it is. */
  readonly wholeSinceMs = new Map<string, number>()
  /** What is not there any more, in the order in which it went. */
  readonly ended: (Instance & { endedAtMs: number; because: string })[] = []
  readonly mishaps: Mishap[] = []
  readonly falls: Fall[] = []
  /** Every time the output of an agent broke, or hung, before its end. */
  readonly breaks: { atMs: number; agent: SimulatedAgent }[] = []
  /** Every agent that ever was started, by its key, with the instance. */
  readonly agents: { agent: SimulatedAgent; ref: string }[] = []
  /** Every end of an instance, and every deletion of a checkpoint, that somebody has asked for. */
  readonly ends: { atMs: number; ref: string; sandboxId: string; was: Instance['state'] }[] = []
  readonly discards: { atMs: number; ref: string; sandboxId: string }[] = []
  readonly outageUntilMs = new Map<string, number>()
  #made = 0

  constructor({ engine, conduct, random, fleet }: { engine: Engine; conduct: Conduct; random: Random; fleet: string }) {
    this.engine = engine
    this.conduct = conduct
    this.random = random
    this.fleet = fleet
  }

  name(kind: string): string {
    return `${kind}-${++this.#made}`
  }

  note(what: string, { ref, sandboxId }: { ref: string; sandboxId: string }): void {
    this.mishaps.push({ atMs: this.engine.nowMs, sandboxId, ref, what })
    this.engine.trace.tell(this.engine.elapsedMs, 'provider', `${what}: ${ref} of ${sandboxId}`)
  }

  instancesOf(sandboxId: string): Instance[] {
    return [...this.instances.values()].filter((instance) => instance.sandboxId === sandboxId)
  }

  startAgent(instance: Instance, key: string, { isOrderly = false } = {}): void {
    const { incarnation, ref } = instance
    const random = this.random.fork(`agent ${key || instance.life} ${incarnation}`)
    const agent = new SimulatedAgent(this.engine, random, { key, incarnation, isOrderly })
    instance.agents.set(key, agent)
    this.agents.push({ agent, ref })
  }

  fall({ ref, sandboxId, incarnation }: Instance, how: FallHow): void {
    this.falls.push({ atMs: this.engine.nowMs, ref, sandboxId, incarnation, how })
  }

  /** Nothing of it is left but, where they have names of their own, its checkpoints. */
  remove(instance: Instance, because: string): void {
    if (!this.instances.delete(instance.ref)) return
    this.fall(instance, 'ended')
    this.ended.push({ ...instance, endedAtMs: this.engine.nowMs, because })
    for (const agent of instance.agents.values()) agent.endBy('sandbox', { signal: 'SIGKILL' })
    this.#tellWaiters(instance, 'it has ended')
  }

  lose(instance: Instance): void {
    this.fall(instance, 'lost')
    instance.state = 'lost'
    instance.isPausing = false
    for (const agent of instance.agents.values()) agent.endBy('sandbox', { signal: 'SIGKILL' })
    this.#tellWaiters(instance, 'it was lost')
  }

  #tellWaiters(instance: Instance, failure: string | undefined): void {
    const waiters = instance.pauseWaiters
    instance.pauseWaiters = []
    for (const tell of waiters) tell(failure)
  }

  /** Its pause is over, and this is what came of it. */
  endPause(instance: Instance, failure: string | undefined): void {
    instance.isPausing = false
    this.#tellWaiters(instance, failure)
  }

  keep(instance: Instance, kind: Checkpoint['kind'], ref: string, pendingMs: number): Checkpoint {
    const { backend, fleet, sandboxId } = instance
    const made = { ref, backend, fleet, of: instance.ref, sandboxId, kind, madeAtMs: this.engine.nowMs }
    const checkpoint: Checkpoint = { ...made, condition: pendingMs > 0 ? 'pending' : 'ready' }
    this.checkpoints.set(ref, checkpoint)
    if (pendingMs === 0) this.wholeSinceMs.set(ref, this.engine.nowMs)
    else this.engine.after(pendingMs, `${ref} is written`, () => this.#endUpload(checkpoint))
    return checkpoint
  }

  #endUpload(checkpoint: Checkpoint): void {
    const { ref } = checkpoint
    if (checkpoint.condition !== 'pending' || this.checkpoints.get(ref) !== checkpoint) return
    if (this.conduct.happens('upload_fails')) {
      this.note('an upload failed', checkpoint)
      if (this.random.chance(0.5)) this.checkpoints.delete(ref)
      else checkpoint.condition = 'corrupt'
      return
    }
    checkpoint.condition = 'ready'
    this.wholeSinceMs.set(ref, this.engine.nowMs)
  }

  /** An instance that came by itself, or on its own to its end: its time-to-live. */
  watchLease(instance: Instance, atEnd: (instance: Instance) => void): void {
    this.engine.after(instance.endsAtMs - this.engine.nowMs, `the time of ${instance.ref} may be over`, () => {
      if (this.instances.get(instance.ref) !== instance) return
      if (instance.endsAtMs > this.engine.nowMs || instance.state === 'changing' || instance.isPausing) {
        if (instance.endsAtMs <= this.engine.nowMs) instance.endsAtMs = this.engine.nowMs + 10_000
        this.watchLease(instance, atEnd)
      } else if (instance.state === 'running') atEnd(instance)
    })
  }
}
