import { randomBytes } from 'node:crypto'
import { afterAll, onTestFinished } from 'vitest'
import type { Agent, Backend, BackendErrorType, Piece, Sighting, Wanted } from '../../../src/backends/backend.ts'
import { BackendError } from '../../../src/backends/backend.ts'
import type { KubernetesOptions } from '../../../src/backends/kubernetes/cluster.ts'
import { openPodBackend } from '../../../src/backends/kubernetes-pod/backend.ts'
import type { Spec } from '../../../src/backends/spec.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../../support/kubernetes/server.ts'

const CALL_MS_MAX = 20_000
export const call = () => ({ signal: AbortSignal.timeout(CALL_MS_MAX) })
export const newId = (prefix: string) => `${prefix}_${randomBytes(13).toString('hex')}`
export const sh = (script: string) => ['sh', '-c', script]
export const IDLING = ['sleep', '1000']
export const nameOf = (ref: string) => ref.slice(ref.lastIndexOf('/') + 1)

/** One cluster for all tests of a file, each of which has a fleet of its own. */
export async function startCluster(options?: FakeKubernetesOptions): Promise<FakeKubernetes> {
  const kubernetes = await FakeKubernetes.start(options)
  afterAll(() => kubernetes.stop())
  return kubernetes
}

export async function openFleet(kubernetes: FakeKubernetes, options: Partial<KubernetesOptions> = {}): Promise<Fleet> {
  const fleet = options.fleet ?? `fleet-${randomBytes(4).toString('hex')}`
  const { namespace } = kubernetes
  const backend = await openPodBackend({ namespace, connection: kubernetes.connect(), ...options, fleet })
  onTestFinished(async () => {
    kubernetes.heal()
    await backend.close()
  })
  return new Fleet(kubernetes, backend, fleet)
}

export type Made = { ref: string; name: string; incarnation: string; own: Agent }

/** A fleet of bare pods, and short ways to try it. */
class Fleet {
  readonly kubernetes: FakeKubernetes
  readonly backend: Backend
  readonly name: string

  constructor(kubernetes: FakeKubernetes, backend: Backend, name: string) {
    this.kubernetes = kubernetes
    this.backend = backend
    this.name = name
  }

  wanted(spec: Spec = {}): Wanted {
    const owner = { sandboxId: newId('sbx'), life: newId('op') }
    return { ...owner, spec: { template: 'sandman-test', ...spec }, checkpointRef: undefined, ttlMs: 600_000 }
  }

  /** One that runs. */
  async create(spec: Spec = {}): Promise<Made> {
    const { ref } = await this.backend.create(this.wanted(spec), call())
    return this.made(ref)
  }

  /** One whose agent is this script. */
  run(script: string, spec: Spec = {}): Promise<Made> {
    return this.create({ agent: { command: sh(script) }, ...spec })
  }

  async made(ref: string): Promise<Made> {
    const seen = await this.look(ref)
    if (seen.is !== 'running') throw new Error(`${ref} is ${JSON.stringify(seen)}`)
    const { incarnation } = seen
    return { ref, name: nameOf(ref), incarnation, own: { ref, incarnation, key: undefined } }
  }

  look(ref: string): Promise<Sighting> {
    return this.backend.look(ref, call())
  }

  /** All that is heard until the output ends, by whatever. */
  async hear(agent: Agent, cursor?: string): Promise<{ text: string; cursor: string | undefined; isLast: boolean }> {
    const heard = { cursor, isLast: false }
    const pieces: Uint8Array[] = []
    for await (const piece of this.backend.attach(agent, cursor, call())) {
      pieces.push(piece.bytes)
      heard.cursor = piece.cursor
      heard.isLast = piece.isLast ?? false
    }
    return { ...heard, text: Buffer.concat(pieces).toString() }
  }

  /** Up to this, and no further. */
  async hearUntil(agent: Agent, end: string, cursor?: string): Promise<Piece & { text: string }> {
    let heard = Buffer.alloc(0)
    for await (const piece of this.backend.attach(agent, cursor, call())) {
      heard = Buffer.concat([heard, piece.bytes])
      if (heard.subarray(-Buffer.byteLength(end)).toString() === end) return { ...piece, text: heard.toString() }
    }
    throw new Error(`it ended with ${JSON.stringify(heard.subarray(-200).toString())}`)
  }
}

/** As what a call fails, and in which words. */
export async function failure(attempt: Promise<unknown>): Promise<{ type: BackendErrorType; message: string }> {
  const outcome = await attempt.then(
    (value) => ({ value }),
    (error: unknown) => ({ error }),
  )
  if (!('error' in outcome)) throw new Error(`It succeeded: ${JSON.stringify(outcome.value)}`)
  if (!(outcome.error instanceof BackendError)) throw outcome.error
  return { type: outcome.error.type, message: outcome.error.message }
}
