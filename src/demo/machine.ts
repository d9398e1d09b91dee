import { readdir, readFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { removeCgroups } from '../backends/local/cgroups.ts'
import { discardCheckpoint } from '../backends/local/checkpoints.ts'
import { endInstance } from '../backends/local/end.ts'
import { type Home, makeHome } from '../backends/local/home.ts'
import { findInstance, type Instance, readLife, readStarted } from '../backends/local/instance.ts'
import { endEverything, findMembers } from '../backends/local/processes.ts'
import { countCalls, type Fault, setFault } from './provider.ts'

const POLL_MS = 50
/** Who counts ten times a second and has not within this time, does not. */
const COUNT_MS = 10_000
/** Longer than anything here takes, also on a machine that is busy. */
const PATIENCE_MS = 60_000

/**
 * What is really there, at the provider of one column: seen in its folders and among the processes of this machine, and not
 * asked of anybody. And what happens to it without being asked for.
 */
export class Machine {
  readonly #folder: string
  readonly #fleet: string
  readonly #signal: AbortSignal

  constructor({ folder, fleet, signal }: { folder: string; fleet: string; signal: AbortSignal }) {
    this.#folder = folder
    this.#fleet = fleet
    this.#signal = signal
  }

  /** Those of the sandbox itself, frozen ones too. */
  async processesOf(ref: string | null): Promise<number> {
    const instance = await this.#find(ref)
    return instance ? (await findMembers(instance)).length : 0
  }

  async hasCheckpoint(checkpointRef: string | null): Promise<boolean> {
    const { checkpoints } = await this.#home()
    return checkpointRef !== null && (await readdir(checkpoints)).includes(checkpointRef)
  }

  /** How far its agent has counted. */
  async countOf(ref: string | null): Promise<number> {
    const instance = await this.#find(ref)
    if (!instance) return 0
    return Number(await readFile(path.join(instance.workspace, 'count'), 'utf8').catch(() => '0'))
  }

  async hasCountedTo(count: number, ref: string | null): Promise<void> {
    await this.until(async () => (await this.countOf(ref)) >= count)
  }

  /** Whether it counts: two looks that differ. */
  async counts(ref: string | null): Promise<boolean> {
    const before = await this.countOf(ref)
    return this.until(async () => (await this.countOf(ref)) > before, COUNT_MS)
  }

  async partsOf(ref: string | null): Promise<{ agent: number | undefined; sidecar: number | undefined }> {
    const instance = await this.#find(ref)
    const started = instance && (await readStarted(instance))
    return { agent: started?.agent?.pid, sidecar: started?.sidecar?.pid }
  }

  calls(call: 'suspend' | 'resume' | 'snapshot' | 'end', ref: string | null): Promise<number> {
    return countCalls(this.#folder, call, ref ?? '')
  }

  setFault(fault: Fault | undefined): Promise<void> {
    return setFault(this.#folder, fault)
  }

  /** What sleeps is stored, as far as its provider knows: so the memory that it was in is given to somebody else. */
  async freeWhatSleeps(): Promise<number> {
    const asleep = await this.#instancesWhere(async (instance) => (await readLife(instance)).is === 'asleep')
    for (const instance of asleep) await endEverything(instance)
    return asleep.length
  }

  /** Its time-to-live at the provider is over. */
  async expire(ref: string | null): Promise<void> {
    const home = await this.#home()
    for (const name of await readdir(home.checkpoints)) {
      if (name.startsWith(`${ref}.`)) await discardCheckpoint(home, name)
    }
    if (ref !== null) await endInstance(home, { ref, incarnation: null })
  }

  /** Nothing is left running, wherever the play was left. */
  async endAll(): Promise<void> {
    for (const instance of await this.#instancesWhere(async () => true)) {
      await endEverything(instance)
      await removeCgroups(instance.labels.cgroups)
    }
  }

  /** Looks again and again. False when it has not come to pass within that time. */
  async until(isTrue: () => Promise<boolean>, withinMs = PATIENCE_MS): Promise<boolean> {
    const untilMs = performance.now() + withinMs
    while (!(await isTrue())) {
      if (performance.now() > untilMs) return false
      await sleep(POLL_MS, undefined, { signal: this.#signal })
    }
    return true
  }

  /** Not once somebody has left: what is being removed must not be made anew. */
  async #home(): Promise<Home> {
    this.#signal.throwIfAborted()
    return makeHome(this.#folder, this.#fleet)
  }

  async #find(ref: string | null): Promise<Instance | undefined> {
    return ref === null ? undefined : findInstance(await this.#home(), ref)
  }

  async #instancesWhere(isMeant: (instance: Instance) => Promise<boolean>): Promise<Instance[]> {
    const home = await this.#home()
    const found: Instance[] = []
    for (const ref of await readdir(home.instances)) {
      const instance = await findInstance(home, ref).catch(() => undefined) // half made, or half removed
      if (instance && (await isMeant(instance))) found.push(instance)
    }
    return found
  }
}
