import { randomUUID } from 'node:crypto'
import { mkdir, rm } from 'node:fs/promises'
import path from 'node:path'
import type { Body } from './body.ts'
import { Container, type ContainerAsked } from './container.ts'
import { LogClock } from './log-clock.ts'
import { MemoryImage } from './memory-image.ts'
import { MemoryWatch } from './memory-watch.ts'
import { freeze, killAll, thaw } from './processes.ts'

export type { Container, ContainerAsked, ContainerEnd } from './container.ts'
export { ExecFailed, type ExecProcess } from './exec.ts'
export type { MemoryImage } from './memory-image.ts'

export type RuntimeOptions = {
  /** Many lines of a log have the same time, to the nanosecond. */
  coarseClock?: boolean
}

/** The container runtime of a node that is none. Containers are processes of this machine, and share its files and its ports. */
export class Runtime {
  readonly #folder: string
  readonly #name = randomUUID()
  readonly #clock: LogClock
  readonly #watch = new MemoryWatch()
  readonly #ids = new Set<string>()
  /** Those that are starting, and those that have not ended. */
  readonly #containers = new Set<Promise<Container>>()
  readonly #images = new Set<MemoryImage>()
  #isStopped = false

  private constructor(folder: string, { coarseClock = false }: RuntimeOptions) {
    this.#folder = folder
    this.#clock = new LogClock({ isCoarse: coarseClock })
  }

  /** Below this folder each container has one of its own. */
  static async create(folder: string, options: RuntimeOptions = {}): Promise<Runtime> {
    await mkdir(folder, { recursive: true })
    return new Runtime(folder, options)
  }

  /** What cannot be started is a container that has ended. */
  async start(asked: ContainerAsked): Promise<Container> {
    const nth = this.#register(asked)
    const at = { mark: `${this.#name}-${nth}`, folder: path.join(this.#folder, String(nth)) }
    return this.#keep(Container.start(asked, at, this.#surroundings))
  }

  /** Either all of them are in the image, or they go on, and it fails. */
  async checkpoint(containers: Container[]): Promise<MemoryImage> {
    const frozen: Container[] = []
    const bodies = new Map<string, Body>()
    try {
      for (const container of containers) {
        bodies.set(container.id, container.beginCheckpoint())
        frozen.push(container)
      }
      await freeze(...marksOf(bodies.values()))
      await Promise.all([...bodies.values()].map((body) => body.drain()))
      for (const container of containers) container.requireMemory()
    } catch (error) {
      for (const container of frozen) container.giveUpCheckpoint()
      thaw(...marksOf(bodies.values()))
      throw error
    }
    for (const container of containers) container.surrender()
    const image = new MemoryImage(bodies)
    this.#images.add(image)
    return image
  }

  /** What of the image is not asked for dies. */
  async restore(image: MemoryImage, asked: { from: string; to: ContainerAsked }[]): Promise<Container[]> {
    const wanted = new Set(asked.map(({ from }) => from))
    if (wanted.size < asked.length || [...wanted].some((id) => !image.containerIds.includes(id)))
      throw new Error(`There is no memory of ${[...wanted].join(', ')} that could be restored like this`)
    for (const { to } of asked) this.#register(to)
    const bodies = this.#take(image)
    const containers = asked.map(({ from, to }) => Container.restore(to, bodies.get(from) as Body, this.#surroundings))
    await Promise.all(containers.map((container) => this.#keep(Promise.resolve(container))))
    await this.#destroy([...bodies].flatMap(([id, body]) => (wanted.has(id) ? [] : [body])))
    thaw(...asked.map(({ from }) => (bodies.get(from) as Body).mark))
    return containers
  }

  /** One that was restored has nothing any more that could be. */
  async discard(image: MemoryImage): Promise<void> {
    await this.#destroy([...this.#take(image).values()])
  }

  /** Everything that it ever started is dead then, images included, and its folder is gone. */
  async stop(): Promise<void> {
    this.#isStopped = true
    const containers = await Promise.all(this.#containers)
    await Promise.all([
      ...containers.map((container) => container.kill()),
      ...[...this.#images].map((image) => this.discard(image)),
    ])
    await rm(this.#folder, { recursive: true, force: true })
  }

  get #surroundings() {
    return { clock: this.#clock, watch: this.#watch }
  }

  #register({ id }: ContainerAsked): number {
    if (this.#isStopped) throw new Error('The runtime has been stopped')
    if (this.#ids.has(id)) throw new Error(`There was a container ${id} already`)
    return this.#ids.add(id).size
  }

  async #keep(starting: Promise<Container>): Promise<Container> {
    this.#containers.add(starting)
    const forget = () => this.#containers.delete(starting)
    try {
      const container = await starting
      void container.ended.then(forget)
      return container
    } catch (error) {
      forget()
      throw error
    }
  }

  #take(image: MemoryImage): ReadonlyMap<string, Body> {
    this.#images.delete(image)
    return image.take() ?? new Map()
  }

  async #destroy(bodies: Body[]): Promise<void> {
    await killAll(...marksOf(bodies))
    await Promise.all(bodies.map((body) => body.close().then(() => body.remove())))
  }
}

function marksOf(bodies: Iterable<Body>): string[] {
  return [...bodies].map(({ mark }) => mark)
}
