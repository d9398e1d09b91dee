import type { Backend } from '../backends/backend.ts'
import type { Spec } from '../backends/spec.ts'
import type { Wire } from './wire.ts'

/** A backend that is to be proven, and what is said of it. */
export type Subject = {
  /** Opens it for a fleet, as a worker does. Called more than once: what two of them share is the provider. */
  open(fleet: string): Promise<Backend>
  /** What every sandbox of the suite is made from. It needs a POSIX shell with the usual small programs. Defaults to nothing. */
  spec?: Pick<Spec, 'template'>
  claims: Claims
  /** Does harm to a snapshot where it is kept, if that can be done: it is lost, or not whole any more. */
  damage?(checkpointRef: string, fleet: string): Promise<void>
  /** The same backend, with every request on a wire that can be made to fail; undefined where there is none to a provider. */
  wire?: Wired
}

export type Wired = {
  open(fleet: string): Promise<Backend>
  wire: Wire
}

/**
 * What it says that it can do. The suite shows that each is so, and that what is not claimed is refused and never pretended.
 */
export type Claims = {
  /** What a sandbox still has when it was suspended and resumed. */
  pausing: 'none' | 'memory' | 'disk'
  /** With its memory, its own agent goes on; and what that has said before the pause can be heard again, unless this says otherwise. */
  ownOutput?: 'since it was resumed'
  snapshots: boolean
  /** The provider ends or pauses an instance by itself when its time is over. */
  lease: boolean
  /** Those that it adopts are found by the label of their new owner. */
  labelsAdopted: boolean
  /**
   * It keeps to `limits.memoryBytesMax`, and tells an agent that was killed for its memory from one that was merely killed. `untold`:
   * it keeps to it, and does not tell. False: it refuses such a limit.
   */
  memoryLimit: boolean | 'untold'
  /**
   * It runs a sidecar beside the agent. What tells whether that lives must not be the backend itself. `endsWithAgent`: the provider
   * ends it by itself when the agent has ended, and begins it again when it ends before that.
   */
  sidecar: 'none' | { isAlive(ref: string): Promise<boolean>; endsWithAgent?: true }
}

/**
 * One promise, and how it is tried. It runs by itself, one after the other, in a fleet that nobody else has; nothing is left behind
 * when the suite is closed.
 */
export type Case = {
  /** Which part of the contract it belongs to. */
  about: string
  /** A sentence. */
  name: string
  run(): Promise<void>
}
