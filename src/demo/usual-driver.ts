import { randomUUID } from 'node:crypto'
import type { Backend, Call, Pausing, Piece, Snapshots } from '../backends/backend.ts'
import type { Spec } from '../backends/spec.ts'

const HOUR_MS = 3_600_000
const CALL_MS = 60_000

/** What a provider is called through, as most projects have it: a base class with sensible defaults, and a class for each provider. */
export class Driver {
  protected readonly provider: Backend
  readonly #leaving: AbortSignal

  constructor(provider: Backend, leaving: AbortSignal) {
    this.provider = provider
    this.#leaving = leaving
  }

  protected call(): Call {
    return { signal: AbortSignal.any([this.#leaving, AbortSignal.timeout(CALL_MS)]) }
  }

  async create(id: string, spec: Spec): Promise<string> {
    const wanted = { sandboxId: id, life: `life-${randomUUID()}`, spec, checkpointRef: undefined, ttlMs: HOUR_MS }
    const { ref } = await this.provider.create(wanted, this.call())
    while ((await this.provider.look(ref, this.call())).is === 'changing')
      await new Promise((done) => setTimeout(done, 50))
    return ref
  }

  /** The default: who cannot pause can still stop, which costs nothing either. */
  async pause(ref: string): Promise<string | null> {
    await this.stop(ref)
    return null
  }

  /** The default: there is nothing to do. */
  async resume(_ref: string, _checkpointRef: string | null): Promise<void> {}

  async snapshot(_ref: string): Promise<string> {
    throw new Error('not supported')
  }

  async stop(ref: string): Promise<void> {
    await this.provider.end({ ref, incarnation: await this.#incarnationOf(ref) }, this.call())
  }

  async run(ref: string, command: string): Promise<string> {
    const target = { ref, incarnation: await this.#incarnationOf(ref) }
    return (await this.provider.run(target, command, this.call())).output
  }

  async isRunning(ref: string): Promise<boolean> {
    return (await this.provider.look(ref, this.call())).is === 'running'
  }

  async *output(ref: string, signal: AbortSignal): AsyncIterable<Piece> {
    const incarnation = (await this.#incarnationOf(ref)) ?? ''
    yield* this.provider.attach({ ref, incarnation, key: undefined }, undefined, { signal })
  }

  async #incarnationOf(ref: string): Promise<string | null> {
    const seen = await this.provider.look(ref, this.call())
    return seen.is === 'running' ? seen.incarnation : null
  }
}

/** Of a provider that can. */
export class PausingDriver extends Driver {
  override async pause(ref: string): Promise<string | null> {
    const seen = await this.provider.look(ref, this.call())
    const target = { ref, incarnation: seen.is === 'running' ? seen.incarnation : null }
    const { checkpointRef } = await (this.provider.pausing as Pausing).suspend(
      target,
      { key: randomUUID() },
      this.call(),
    )
    return checkpointRef ?? null
  }

  override async resume(ref: string, checkpointRef: string | null): Promise<void> {
    const sleeping = { ref, checkpointRef: checkpointRef ?? undefined }
    await (this.provider.pausing as Pausing).resume(sleeping, { key: randomUUID(), ttlMs: HOUR_MS }, this.call())
  }

  override async snapshot(ref: string): Promise<string> {
    const seen = await this.provider.look(ref, this.call())
    const target = { ref, incarnation: seen.is === 'running' ? seen.incarnation : null }
    const asked = { key: randomUUID(), name: undefined }
    return (await (this.provider.snapshots as Snapshots).take(target, asked, this.call())).checkpointRef
  }
}
