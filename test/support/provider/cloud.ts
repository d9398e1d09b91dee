import { randomUUID } from 'node:crypto'
import type { FakeAgent } from './agent.ts'
import type { Method } from './calls.ts'
import { Conduct } from './conduct.ts'

export type FakeInstance = {
  ref: string
  /** Whose label it carries. */
  fleet: string
  sandboxId: string
  life: string
  state: 'running' | 'suspended' | 'changing' | 'lost'
  incarnation: number
  /** The keys that woke it: the same one does not wake it twice. */
  wokenBy: string[]
  checkpointRef: string | undefined
  endsAtMs: number
  commands: string[]
  /** By the key that started it; the one that it was made with has none. */
  agents: Map<string, FakeAgent>
}

type FakeCheckpoint = {
  ref: string
  of: string
  /** What nobody has labelled is in nobody's list. */
  fleet?: string
  sandboxId?: string
  kind?: 'pause' | 'snapshot'
  condition: 'ready' | 'pending' | 'missing' | 'corrupt'
}

/** What the provider has, and what it was asked to do with it. */
export class Cloud extends Conduct {
  readonly instances = new Map<string, FakeInstance>()
  readonly checkpoints = new Map<string, FakeCheckpoint>()
  /** Every call that was performed, in order. */
  readonly performed: { method: Method; ref: string; body: Record<string, unknown> }[] = []

  /** Bytes of output that were handed to sockets. */
  streamed = 0

  /** One that somebody has made by hand. */
  putInstance(more: Partial<FakeInstance> = {}): FakeInstance {
    const instance: FakeInstance = {
      ref: `vm-${randomUUID().slice(0, 8)}`,
      fleet: 'nobody',
      sandboxId: 'by-hand',
      life: 'by-hand',
      state: 'running',
      incarnation: 7,
      wokenBy: [],
      checkpointRef: undefined,
      endsAtMs: Date.now() + 3_600_000,
      commands: [],
      agents: new Map(),
      ...more,
    }
    this.instances.set(instance.ref, instance)
    return instance
  }

  instancesOf(sandboxId: string): FakeInstance[] {
    return [...this.instances.values()].filter((instance) => instance.sandboxId === sandboxId)
  }

  /** The one that it was made with, or the one of an execution, of the newest instance of a sandbox. */
  agentOf(sandboxId: string, executionId = ''): FakeAgent {
    const agent = this.instancesOf(sandboxId).at(-1)?.agents.get(executionId)
    if (!agent) throw new Error(`${sandboxId} has no agent ${executionId}`)
    return agent
  }

  agentKeysOf(sandboxId: string): string[] {
    return this.instancesOf(sandboxId).flatMap(({ agents }) => [...agents.keys()])
  }
}
