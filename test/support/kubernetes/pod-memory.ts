import { signal } from '../machine.ts'
import type { Container, ContainerAsked, MemoryImage, Runtime } from './runtime/runtime.ts'

type Snapshot = {
  /** Of the pod it was taken of. */
  podUid: string
  image: MemoryImage | undefined
  /** By the names of its containers, what they were in. */
  ids: Map<string, string>
}

type Held = { containers: Map<string, Container>; snapshots: Set<string>; timer: NodeJS.Timeout }

/**
 * The memory of pods. There is no copy of it here, only the processes themselves: when a snapshot is taken of them they stand still
 * for a while. If the pod ends within that time, they are what the snapshot has. If it does not, they go on, and the snapshot has
 * nothing but files. Of the snapshots that have the same processes, only one can be restored, once.
 */
export class PodMemory {
  readonly #runtime: Runtime
  readonly #holdMs: number
  readonly #held = new Map<string, Held>()
  readonly #snapshots = new Map<string, Snapshot>()

  constructor(runtime: Runtime, holdMs: number) {
    this.#runtime = runtime
    this.#holdMs = holdMs
  }

  /** By the name of the snapshot. */
  has(name: string): boolean {
    return this.#snapshots.get(name)?.image !== undefined
  }

  hold(name: string, podUid: string, containers: Map<string, Container>): void {
    const held = this.#held.get(podUid) ?? { containers, snapshots: new Set(), timer: setTimeout(() => {}, 0) }
    clearTimeout(held.timer)
    held.timer = setTimeout(() => this.wake(podUid), this.#holdMs).unref()
    held.snapshots.add(name)
    this.#held.set(podUid, held)
    standStill([...containers.values()])
  }

  /** The pod goes on. */
  wake(podUid: string): void {
    const held = this.#held.get(podUid)
    if (!held) return
    clearTimeout(held.timer)
    this.#held.delete(podUid)
    for (const { pids } of held.containers.values()) for (const pid of pids) signal(pid, 'SIGCONT')
  }

  /** The pod ends, and what stands still is kept. Tells whether anything was. */
  async keep(podUid: string): Promise<boolean> {
    const held = this.#held.get(podUid)
    if (!held) return false
    clearTimeout(held.timer)
    this.#held.delete(podUid)
    const alive = [...held.containers].filter(([, { end }]) => !end)
    // One that has died meanwhile has no memory, and then the others are not enough.
    const image = await this.#runtime.checkpoint(alive.map(([, container]) => container)).catch(() => undefined)
    if (!image) return false
    const ids = new Map(alive.map(([name, { id }]) => [name, id]))
    for (const name of held.snapshots) this.#snapshots.set(name, { podUid, image, ids })
    return true
  }

  /** The pod that it was taken of, if its memory is there. */
  originOf(name: string): string | undefined {
    const snapshot = this.#snapshots.get(name)
    return snapshot?.image && snapshot.podUid
  }

  /** They go on as these, by their names. */
  async restore(name: string, asked: Map<string, ContainerAsked>): Promise<Map<string, Container>> {
    const snapshot = this.#snapshots.get(name)
    if (!snapshot?.image) return new Map()
    const { image, ids } = snapshot
    for (const one of this.#snapshots.values()) if (one.image === image) one.image = undefined
    const wanted = [...asked].flatMap(([container, to]) => {
      const from = ids.get(container)
      return from === undefined ? [] : [{ container, from, to }]
    })
    const restored = await this.#runtime.restore(image, wanted)
    return new Map(wanted.flatMap(({ container }, n) => (restored[n] ? [[container, restored[n]] as const] : [])))
  }

  /** Gives the pod whose files need not be kept any longer. */
  async forget(name: string): Promise<string | undefined> {
    const snapshot = this.#snapshots.get(name)
    this.#snapshots.delete(name)
    for (const { snapshots } of this.#held.values()) snapshots.delete(name)
    if (!snapshot?.image) return undefined
    if ([...this.#snapshots.values()].some(({ image }) => image === snapshot.image)) return undefined
    await this.#runtime.discard(snapshot.image)
    return snapshot.podUid
  }
}

/** Until twice in a row there were the same ones: one that was forking has been stopped with its child. */
function standStill(containers: Container[]): void {
  for (let [before, now] = ['-', '']; before !== now; ) {
    const pids = containers.flatMap((container) => container.pids)
    for (const pid of pids) signal(pid, 'SIGSTOP')
    ;[before, now] = [now, pids.join(' ')]
  }
}
