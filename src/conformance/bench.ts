import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import {
  type Agent,
  type AgentStatus,
  type Backend,
  BackendError,
  type BackendErrorType,
  type Call,
  type CheckpointCondition,
  type Checkpoints,
  type ListedCheckpoint,
  type ListedInstance,
  type Listing,
  type Pausing,
  type Sighting,
  type Snapshots,
  type Target,
  type Wanted,
} from '../backends/backend.ts'
import type { Spec } from '../backends/spec.ts'
import { holds, is, shown } from './assertions.ts'
import type { Subject } from './subject.ts'

/** Far above what is usual: only something that never comes takes so long. */
const PATIENCE_MS = 45_000
const POLL_MS = 50
/** An output that has come to its end so often in a row, without a byte, of an agent that has ended. */
const EMPTY_ENDS = 3

export type Awake = Target & { incarnation: string }

/** One fleet of its own, at the provider of the subject. */
export class Bench {
  readonly subject: Subject
  readonly fleet: string
  readonly backend: Backend
  readonly #opened: Backend[]

  private constructor(subject: Subject, fleet: string, backend: Backend) {
    this.subject = subject
    this.fleet = fleet
    this.backend = backend
    this.#opened = [backend]
  }

  static async open(subject: Subject): Promise<Bench> {
    const fleet = `kit-${randomBytes(6).toString('hex')}`
    return new Bench(subject, fleet, await subject.open(fleet))
  }

  /** As another worker has it, of this fleet or of another one. */
  async another(fleet = this.fleet): Promise<Backend> {
    return this.use(await this.subject.open(fleet))
  }

  /** What it has made is gone with the bench. */
  use(backend: Backend): Backend {
    this.#opened.push(backend)
    return backend
  }

  get pausing(): Pausing {
    return pausingOf(this.backend)
  }

  get snapshots(): Snapshots {
    return snapshotsOf(this.backend)
  }

  wanted(spec: Spec = {}, more: Partial<Wanted> = {}): Wanted {
    return {
      sandboxId: newId('sbx'),
      life: newId('op'),
      spec: { ...this.subject.spec, ...spec },
      checkpointRef: undefined,
      ttlMs: 600_000,
      ...more,
    }
  }

  /** A sandbox that runs. */
  async create(spec: Spec = {}, more: Partial<Wanted> = {}): Promise<Awake> {
    const { ref } = await this.backend.create(this.wanted(spec, more), call())
    return this.awake(ref)
  }

  /** What is true of it once it has come to rest. */
  async look(ref: string): Promise<Exclude<Sighting, { is: 'changing' }>> {
    return until(`${ref} comes to rest`, async () => {
      const seen = await this.backend.look(ref, call())
      return seen.is === 'changing' ? undefined : seen
    })
  }

  async awake(ref: string): Promise<Awake> {
    const seen = await this.look(ref)
    holds(`look was expected to show ${ref} running, and showed ${shown(seen)}`, seen.is === 'running')
    return { ref, incarnation: seen.incarnation }
  }

  /** Put to sleep, and its checkpoint seen to be whole. */
  async suspend(target: Awake, key = newId('op')): Promise<string> {
    const told = await this.pausing.suspend(target, { key }, call())
    const checkpointRef = await until(`${target.ref} sleeps, with a checkpoint`, async () => {
      const seen = await this.look(target.ref)
      holds(`suspend lost ${target.ref}: ${shown(seen)}`, seen.is !== 'lost')
      return seen.is === 'suspended' ? (seen.checkpointRef ?? told.checkpointRef) : undefined
    })
    is('verify of the checkpoint of a pause', (await settled(this.pausing, checkpointRef)).is, 'ready')
    return checkpointRef
  }

  async resume(ref: string, checkpointRef: string | undefined, key = newId('op')): Promise<Awake> {
    await this.pausing.resume({ ref, checkpointRef }, { key, ttlMs: 600_000 }, call())
    return this.awake(ref)
  }

  /** One that runs beside the sandbox's own. */
  async start(target: Awake, command: readonly string[], key = newId('exe')): Promise<Agent & { key: string }> {
    await this.backend.startAgent(target, { key, command }, call())
    return { ...target, key }
  }

  /** How an agent has ended. */
  async end(agent: Agent): Promise<AgentStatus & { is: 'terminated' }> {
    return until('the agent ends', async () => {
      const status = await this.backend.agentStatus(agent, call())
      const isKnown = status.is === 'running' || status.is === 'terminated'
      holds(`agentStatus of an agent that ends was expected to be running or terminated: ${shown(status)}`, isKnown)
      return status.is === 'terminated' ? status : undefined
    })
  }

  /** All that it says from a cursor on, up to its end. */
  async hear(agent: Agent, from?: string, backend = this.backend): Promise<string> {
    return (await this.bytes(agent, from, backend)).toString()
  }

  async bytes(agent: Agent, from?: string, backend = this.backend): Promise<Buffer> {
    const heard: Uint8Array[] = []
    let cursor = from
    let emptyEnds = 0
    return until('the output ends', async () => {
      const before = heard.length
      for await (const piece of backend.attach(agent, cursor, call())) {
        cursor = piece.cursor
        if (piece.bytes.length > 0) heard.push(piece.bytes)
        if (piece.isLast) return Buffer.concat(heard)
      }
      const status = await backend.agentStatus(agent, call())
      emptyEnds = heard.length === before && status.is === 'terminated' ? emptyEnds + 1 : 0
      return emptyEnds === EMPTY_ENDS ? Buffer.concat(heard) : undefined
    })
  }

  /** What a command prints; it has to end well. */
  async run(target: Awake, command: string): Promise<string> {
    const { exitCode, output } = await this.backend.run(target, command, call())
    holds(`run of "${command}" was expected to end with 0, and ended with ${exitCode}: ${output}`, exitCode === 0)
    return output
  }

  /** Lets an agent go on that is gated. It may take its sandbox with it, and who said so. */
  async go(target: Awake): Promise<void> {
    const saying = this.backend.run(target, 'touch go', call())
    await saying.catch((error: unknown) =>
      holds(`run failed, but not with a BackendError: ${shown(error)}`, error instanceof BackendError),
    )
  }

  instances(backend = this.backend): Promise<ListedInstance[]> {
    return wholeList((cursor) => backend.lists.instances(cursor, call()))
  }

  async checkpoints(backend = this.backend): Promise<ListedCheckpoint[]> {
    const { checkpoints } = backend.lists
    return checkpoints === 'none' ? [] : wholeList((cursor) => checkpoints(cursor, call()))
  }

  async find(sandboxId: string): Promise<string[]> {
    return (await this.backend.find(sandboxId, call())).map(({ ref }) => ref)
  }

  /** Ends an instance, whatever it is doing. */
  async remove(ref: string, backend = this.backend): Promise<void> {
    await until(`${ref} has ended`, async () => {
      const seen = await backend.look(ref, call())
      if (seen.is === 'absent') return true
      const incarnation = ('incarnation' in seen ? seen.incarnation : undefined) ?? null
      await backend.end({ ref, incarnation }, call()).catch((error: unknown) => {
        if (!isOneOf(error, ['overtaken', 'sandbox_unreachable'])) throw error
      })
      return undefined
    })
  }

  async close(): Promise<void> {
    const failures: unknown[] = []
    for (const backend of this.#opened) await this.#clear(backend).catch((error: unknown) => failures.push(error))
    for (const backend of this.#opened) await backend.close().catch((error: unknown) => failures.push(error))
    if (failures.length > 0)
      throw new AggregateError(failures, `Not all could be ended: ${failures.map(String).join('; ')}`)
  }

  async #clear(backend: Backend): Promise<void> {
    const failures: unknown[] = []
    const keep = (error: unknown) => void failures.push(error)
    for (const { ref } of await this.instances(backend)) await this.remove(ref, backend).catch(keep)
    await this.discardAll(backend).catch(keep)
    if (failures.length > 0) throw failures[0]
  }

  /** Every checkpoint that there is. */
  async discardAll(backend = this.backend): Promise<void> {
    const failures: unknown[] = []
    const { pausing, snapshots } = backend
    const keeper = pausing === 'none' ? snapshots : pausing
    if (keeper === 'none') return
    for (const { ref } of await this.checkpoints(backend))
      await keeper.discard(ref, call()).catch((error: unknown) => void failures.push(error))
    if (failures.length > 0) throw failures[0]
  }
}

/** Claimed, so that the suite may ask for it. */
export function pausingOf({ pausing }: Backend): Pausing {
  holds('the backend was said to be able to pause, and its pausing is "none"', pausing !== 'none')
  return pausing
}

export function snapshotsOf({ snapshots }: Backend): Snapshots {
  holds('the backend was said to be able to take snapshots, and its snapshots are "none"', snapshots !== 'none')
  return snapshots
}

/** A call with a deadline, as every caller has one. */
export function call(): Call {
  return { signal: AbortSignal.timeout(PATIENCE_MS) }
}

/** As Sandman names its sandboxes, operations and executions. */
export function newId(prefix: 'sbx' | 'op' | 'exe'): string {
  return `${prefix}_${randomBytes(13).toString('hex')}`
}

export const sh = (script: string): string[] => ['sh', '-c', script]

/** What an agent does once `Bench.go` was said: it has been seen awake before. */
export const gated = (script: string): string[] => sh(`until [ -e go ]; do sleep 0.02; done; ${script}`)

export const IDLING = ['sleep', '1000']

/** Asks again and again until there is an answer. */
export async function until<T>(what: string, ask: () => Promise<T | undefined>): Promise<T> {
  const endsAt = Date.now() + PATIENCE_MS
  for (;;) {
    const answer = await ask()
    if (answer !== undefined) return answer
    holds(`It never came to this: ${what}`, Date.now() <= endsAt)
    await sleep(POLL_MS)
  }
}

/** What a checkpoint is worth once it has been written. */
export function settled(
  checkpoints: Checkpoints,
  ref: string,
): Promise<Exclude<CheckpointCondition, { is: 'pending' }>> {
  return until(`checkpoint ${ref} is written`, async () => {
    const condition = await checkpoints.verify(ref, call())
    return condition.is === 'pending' ? undefined : condition
  })
}

function isOneOf(error: unknown, types: readonly BackendErrorType[]): boolean {
  return error instanceof BackendError && types.includes(error.type)
}

async function wholeList<T>(page: (cursor: string | undefined) => Promise<Listing<T>>): Promise<T[]> {
  const items: T[] = []
  for (let cursor: string | undefined, pages = 1; ; pages++) {
    holds('a list was expected to end, and has more than 1,000 pages', pages <= 1_000)
    const listing = await page(cursor)
    items.push(...listing.items)
    if (listing.next === undefined) return items
    cursor = listing.next
  }
}
