import { setTimeout as sleep } from 'node:timers/promises'
import { ContainerMaker } from './container-maker.ts'
import type { Node } from './node.ts'
import type { Condition, KubeObject } from './objects.ts'
import { type PodVerdict, podStatus } from './pod-status.ts'
import { specOf } from './pods.ts'
import type { Container } from './runtime/runtime.ts'
import { schedule } from './scheduler.ts'
import { Slot, type Verdict } from './slot.ts'

const CRASH_BACKOFF_S = 10
const CRASH_BACKOFF_S_MAX = 300

/** Makes a pod so as its spec says, and tells in its status how far that is. */
export class PodWorker {
  readonly #node: Node
  readonly #pod: KubeObject
  readonly slots: Slot[]
  /** No waiting and no restarts from here on. */
  readonly #over = new AbortController()
  readonly #maker: ContainerMaker
  #conditions: Condition[] = []
  #isInitialized = false
  #isOver = false
  #isLost = false
  #verdict: PodVerdict | undefined
  #deadlineMs = Number.POSITIVE_INFINITY
  readonly done: Promise<void>

  constructor(node: Node, pod: KubeObject) {
    this.#node = node
    this.#pod = pod
    const { containers, initContainers = [] } = specOf(pod)
    const waitsFor = initContainers.length > 0 ? 'PodInitializing' : 'ContainerCreating'
    this.slots = [
      ...initContainers.map((one) => new Slot(one, one.restartPolicy === 'Always' ? 'sidecar' : 'init', waitsFor)),
      ...containers.map((one) => new Slot(one, 'regular', waitsFor)),
    ]
    const { signal } = this.#over
    this.#maker = new ContainerMaker({ node, pod, slots: this.slots, signal, publish: () => this.publish() })
    this.done = this.#run().catch((error: unknown) => {
      if (!this.#over.signal.aborted) throw error
    })
  }

  get uid(): string {
    return this.#pod.metadata.uid
  }

  /** As it is now; undefined when it is gone. */
  get pod(): KubeObject | undefined {
    const { namespace, name } = this.#pod.metadata
    const found = this.#node.store.get('pods', namespace, name)
    return found?.metadata.uid === this.uid ? found : undefined
  }

  /** Its node does not answer any more: what runs there runs on, and nobody hears of it. */
  get isLost(): boolean {
    return this.#isLost
  }

  set isLost(isLost: boolean) {
    this.#isLost = isLost
    if (!isLost) this.publish()
  }

  get containers(): Container[] {
    return this.slots.flatMap(({ container }) => container ?? [])
  }

  slot(name: string): Slot | undefined {
    return this.slots.find(({ spec }) => spec.name === name)
  }

  /** Asked to end, and killed when their time is up; native sidecars after all others. Asked again, it can only be sooner. */
  async terminate(graceMs: number): Promise<void> {
    const isFirst = this.#deadlineMs === Number.POSITIVE_INFINITY
    this.#deadlineMs = Math.min(this.#deadlineMs, Date.now() + graceMs)
    this.#over.abort()
    if (isFirst) {
      await this.#node.keep(this.uid)
      await this.#stop(this.slots.filter(({ role }) => role !== 'sidecar'))
    } else await Promise.race([this.done, sleep(Math.max(0, this.#deadlineMs - Date.now()))])
    await this.#stop(this.slots)
    await this.done
    await this.#maker.discard()
  }

  /** At once, and with this as what is told of it. */
  async end(verdict: PodVerdict, condition?: Condition): Promise<void> {
    this.#verdict = verdict
    if (condition) this.#conditions = [...this.#conditions, condition]
    await this.terminate(0)
    this.#isOver = true
    this.publish()
  }

  /** A container of it ends, and this is told of its end. */
  async endContainer(name: string, verdict: Verdict, mustRestart: boolean): Promise<void> {
    const slot = this.slot(name)
    if (!slot?.container || slot.container.end) throw new Error(`container ${name} does not run`)
    slot.verdict = verdict
    slot.mustRestart = mustRestart
    await slot.container.kill()
  }

  publish(): void {
    if (this.#isLost) return
    this.#node.store.change('pods', this.#pod, (draft) => {
      draft.status = podStatus(draft, {
        slots: this.slots,
        isInitialized: this.#isInitialized,
        isOver: this.#isOver,
        verdict: this.#verdict,
        conditions: this.#conditions,
        nowMs: this.#node.nowMs(),
      })
    })
  }

  async #run(): Promise<void> {
    await schedule(this.#node, this.#pod, this.#over.signal)
    this.publish()
    const condition = await this.#maker.restore()
    if (condition) this.#conditions = [condition]
    const sidecars: Promise<void>[] = []
    for (const slot of this.slots.filter(({ role }) => role !== 'regular')) {
      const begun = Promise.withResolvers<void>()
      const kept = this.#keep(slot, begun.resolve)
      if (slot.role === 'sidecar') {
        kept.catch(() => {}) // it is over, and said so by the others
        sidecars.push(kept)
        await Promise.race([begun.promise, kept])
      } else {
        await kept
        if (slot.terminated?.exitCode !== 0) return this.#finish(sidecars)
      }
    }
    this.#isInitialized = true
    await Promise.all(this.slots.filter(({ role }) => role === 'regular').map((slot) => this.#keep(slot)))
    await this.#finish(sidecars)
  }

  async #finish(sidecars: Promise<void>[]): Promise<void> {
    // Those who are still wanted by nobody.
    this.#over.abort()
    const graceMs = specOf(this.#pod).terminationGracePeriodSeconds * this.#node.graceScale
    this.#deadlineMs = Math.min(this.#deadlineMs, Date.now() + graceMs)
    await this.#stop(this.slots)
    await Promise.all(sidecars)
    this.#isOver = true
    this.publish()
  }

  /** Until it has ended and is not to be begun again. */
  async #keep(slot: Slot, onBegun: () => void = () => {}): Promise<void> {
    for (let failures = 0; ; failures++) {
      const container = await this.#maker.make(slot)
      if (container.end?.reason !== 'StartError') {
        this.publish()
        onBegun()
      }
      if (this.#over.signal.aborted) await container.kill()
      const end = await container.ended
      const { statusLagMs, stopping } = this.#node
      if (statusLagMs > 0) await sleep(statusLagMs, undefined, { signal: stopping }).catch(() => {})
      slot.finish(end)
      if (!this.#isToRestart(slot)) return this.publish()
      slot.retire()
      if (failures > 0 && !slot.mustRestart) await this.#backOff(slot, failures)
      slot.mustRestart = false
      // Counted when it begins again: while that is waited for, the count is still that of the one that has ended.
      slot.restartCount += 1
    }
  }

  #isToRestart(slot: Slot): boolean {
    if (this.#over.signal.aborted) return false
    if (slot.mustRestart || slot.role === 'sidecar') return true
    const { restartPolicy } = specOf(this.#pod)
    const hasFailed = slot.terminated?.exitCode !== 0
    if (slot.role === 'init') return hasFailed && restartPolicy !== 'Never'
    return restartPolicy === 'Always' || (restartPolicy === 'OnFailure' && hasFailed)
  }

  /** Only the first time it is begun again at once. */
  async #backOff(slot: Slot, failures: number): Promise<void> {
    const seconds = Math.min(CRASH_BACKOFF_S * 2 ** (failures - 1), CRASH_BACKOFF_S_MAX)
    const { name, namespace, uid } = this.#pod.metadata
    slot.wait(
      'CrashLoopBackOff',
      `back-off ${seconds}s restarting failed container=${slot.spec.name} pod=${name}_${namespace}(${uid})`,
    )
    this.publish()
    await this.#wait(seconds)
  }

  #wait(seconds: number): Promise<void> {
    return sleep(seconds * this.#node.graceScale, undefined, { signal: this.#over.signal, ref: false })
  }

  async #stop(slots: Slot[]): Promise<void> {
    const running = slots.flatMap(({ container }) => (container && !container.end ? container : []))
    const graceMs = Math.max(0, this.#deadlineMs - Date.now())
    await Promise.all(running.map((container) => (graceMs > 0 ? container.stop(graceMs) : container.kill())))
  }
}
