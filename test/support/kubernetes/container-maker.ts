import { setTimeout as sleep } from 'node:timers/promises'
import { ConfigError, commandOf, environmentOf } from './environment.ts'
import { pull } from './images.ts'
import type { Node } from './node.ts'
import type { Condition, KubeObject } from './objects.ts'
import { bytesOf } from './pods.ts'
import type { Container, ContainerAsked } from './runtime/runtime.ts'
import type { Slot } from './slot.ts'

const PULL_BACKOFF_S = 10

type Given = {
  node: Node
  pod: KubeObject
  slots: readonly Slot[]
  /** Aborted when nothing more is to be made. */
  signal: AbortSignal
  /** What is waited for is told. */
  publish: () => void
}

/** Makes the containers of a pod, of an image or of what they have been before. */
export class ContainerMaker {
  readonly #node: Node
  readonly #pod: KubeObject
  readonly #slots: readonly Slot[]
  readonly #signal: AbortSignal
  readonly #publish: () => void
  #restored = new Map<string, Container>()

  constructor({ node, pod, slots, signal, publish }: Given) {
    this.#node = node
    this.#pod = pod
    this.#slots = slots
    this.#signal = signal
    this.#publish = publish
  }

  /** Gives what is to be told of it; undefined when all begin afresh. */
  async restore(): Promise<Condition | undefined> {
    const restored = await this.#node.restore(this.#pod, () => this.#askedOfAll())
    if (restored) this.#restored = restored.containers
    return restored?.condition
  }

  /** Those that go on from before, and whose turn has never come. */
  async discard(): Promise<void> {
    await Promise.all([...this.#restored.values()].map((container) => container.kill()))
  }

  async make(slot: Slot): Promise<Container> {
    await this.#pull(slot)
    const restored = this.#restored?.get(slot.spec.name)
    this.#restored?.delete(slot.spec.name)
    const container = restored ?? (await this.#node.runtime.start(await this.#asked(slot)))
    slot.begin(container)
    return container
  }

  async #asked(slot: Slot): Promise<ContainerAsked> {
    const env = await this.#environmentOf(slot)
    return {
      id: `${this.#pod.metadata.uid}/${slot.spec.name}/${slot.restartCount}`,
      command: commandOf(slot.spec, env),
      env,
      workingDir: slot.spec.workingDir,
      mounts: await this.#node.volumes.mountsOf(this.#pod, slot.spec),
      memoryBytesMax: bytesOf(slot.spec.resources?.limits?.memory),
    }
  }

  async #askedOfAll(): Promise<Map<string, ContainerAsked>> {
    const all = new Map<string, ContainerAsked>()
    for (const slot of this.#slots) if (slot.role !== 'init') all.set(slot.spec.name, await this.#asked(slot))
    return all
  }

  /** What it refers to may still come. */
  async #environmentOf(slot: Slot): Promise<Record<string, string>> {
    for (;;) {
      try {
        return environmentOf(this.#node.store, this.#pod, slot.spec)
      } catch (error) {
        if (!(error instanceof ConfigError)) throw error
        slot.wait('CreateContainerConfigError', error.message)
        this.#publish()
        await this.#node.bell.rung(this.#signal)
      }
    }
  }

  async #pull(slot: Slot): Promise<void> {
    const { image } = slot.spec
    for (;;) {
      this.#signal.throwIfAborted()
      const pulled = pull(image, this.#node.images)
      if (pulled === 'pulled') return
      slot.wait(pulled.reason, pulled.message)
      this.#publish()
      if (pulled.reason === 'InvalidImageName') await this.#node.bell.rung(this.#signal)
      else {
        await this.#wait(1)
        slot.wait('ImagePullBackOff', `Back-off pulling image "${image}": ErrImagePull: ${pulled.message}`)
        this.#publish()
        await this.#wait(PULL_BACKOFF_S)
      }
    }
  }

  #wait(seconds: number): Promise<void> {
    return sleep(seconds * this.#node.graceScale, undefined, { signal: this.#signal, ref: false })
  }
}
