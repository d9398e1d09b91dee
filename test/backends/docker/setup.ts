import { randomBytes } from 'node:crypto'
import http from 'node:http'
import { expect, onTestFinished, test } from 'vitest'
import type { Agent, Backend, Call, Pausing, Piece, Snapshots, Target, Wanted } from '../../../src/backends/backend.ts'
import { type DockerOptions, openDockerBackend } from '../../../src/backends/docker/backend.ts'
import { Engine } from '../../../src/backends/docker/engine.ts'
import type { Spec } from '../../../src/backends/spec.ts'
import { startWire, type Wire } from '../../../src/conformance/wire.ts'
import { IMAGE } from '../../support/docker/image.ts'
import { engineSocket } from '../../support/docker/offer-engine.ts'

export const CALL: Call = { signal: new AbortController().signal }
export const IDLING = ['sleep', '1000']
export const sh = (script: string) => ['sh', '-c', script]
/** What it does once `go` was said: not before everybody has seen it awake. */
export const gated = (script: string) => sh(`until [ -e /go ]; do sleep 0.02; done; ${script}`)
export const newId = (prefix: 'sbx' | 'op' | 'exe') => `${prefix}_${randomBytes(13).toString('hex')}`

const socketPath = await engineSocket()

/** Tests on the engine of this run, or a test that says that there is none. */
export function onEngine(define: () => void): void {
  if (socketPath === undefined)
    test('there is no engine, so nothing of this was tried', () => expect(socketPath).toBeUndefined())
  else define()
}

type Awake = Target & { incarnation: string }
type Container = {
  Id: string
  Name: string
  Image: string
  State: { Status: string; StartedAt: string; OOMKilled: boolean }
  HostConfig: Record<string, unknown>
}

export type Bench = {
  fleet: string
  backend: Backend
  pausing: Pausing
  snapshots: Snapshots
  /** As another worker has it, of this fleet unless it says another. */
  open(more?: Partial<DockerOptions>): Promise<Backend & { pausing: Pausing }>
  create(spec?: Spec, more?: Partial<Wanted>): Promise<Awake & { wanted: Wanted }>
  awake(ref: string): Promise<Awake>
  suspend(target: Awake): Promise<string | undefined>
  resume(ref: string): Promise<Awake>
  run(target: Awake, command: string): Promise<string>
  /** Lets an agent begin that is gated. */
  go(target: Awake): Promise<void>
  /** All that an agent has said, up to its end. */
  hear(agent: Agent, cursor?: string, backend?: Backend): Promise<Buffer>
  containers(): Promise<{ Id: string; Names: string[]; State: string; Labels: Record<string, string> }[]>
  /** The engine's own account of a sandbox's container. */
  inspect(ref: string): Promise<Container>
}

/** A fleet of its own, of which nothing is left when the test is over. */
export async function setup(options: Partial<DockerOptions> = {}): Promise<Bench> {
  const fleet = `test-${randomBytes(6).toString('hex')}`
  const open = async (more: Partial<DockerOptions> = {}) =>
    (await openDockerBackend({
      fleet,
      network: 'none',
      connection: { socketPath: socketPath as string },
      ...options,
      ...more,
    })) as Backend & { pausing: Pausing }
  const backend = await open()
  onTestFinished(() => cleanUp(fleet))
  const pausing = backend.pausing as Pausing
  const awake = async (ref: string) => {
    const seen = await backend.look(ref, CALL)
    if (seen.is !== 'running') throw new Error(`${ref} does not run: ${JSON.stringify(seen)}`)
    return { ref, incarnation: seen.incarnation }
  }
  const containers = () =>
    engine<Awaited<ReturnType<Bench['containers']>>>('GET', listOf('containers', 'sandman.fleet', fleet))
  return {
    fleet,
    backend,
    pausing,
    snapshots: backend.snapshots as Snapshots,
    open,
    awake,
    containers,
    async create(spec = {}, more = {}) {
      const wanted = wantedOf(spec, more)
      const { ref } = await backend.create(wanted, CALL)
      return { ...(await awake(ref)), wanted }
    },
    suspend: async (target) => (await pausing.suspend(target, { key: newId('op') }, CALL)).checkpointRef,
    async resume(ref) {
      await pausing.resume({ ref, checkpointRef: undefined }, { key: newId('op'), ttlMs: 60_000 }, CALL)
      return awake(ref)
    },
    async run(target, command) {
      const { exitCode, output } = await backend.run(target, command, CALL)
      expect(exitCode, output).toBe(0)
      return output
    },
    async go(target) {
      await backend
        .run(target, 'touch /go', CALL)
        .catch((error) => expect(error).toMatchObject({ name: 'BackendError' }))
    },
    hear: (agent, cursor, from = backend) => hear(from.attach(agent, cursor, CALL)),
    async inspect(ref) {
      const agent = (await containers()).find(
        ({ Labels }) => Labels['sandman.ref'] === ref && Labels['sandman.part'] === 'agent',
      )
      return engine<Container>('GET', `/containers/${agent?.Id}/json`)
    },
  }
}

export function wantedOf(spec: Spec = {}, more: Partial<Wanted> = {}): Wanted {
  return {
    sandboxId: newId('sbx'),
    life: newId('op'),
    spec: { template: IMAGE, ...spec },
    checkpointRef: undefined,
    ttlMs: 60_000,
    ...more,
  }
}

async function hear(pieces: AsyncIterable<Piece>): Promise<Buffer> {
  const heard: Uint8Array[] = []
  for await (const { bytes } of pieces) heard.push(bytes)
  return Buffer.concat(heard)
}

/** The same engine, over a wire that fails when it is told to. */
export async function wired(bench: Bench): Promise<{ wire: Wire; backend: Backend & { pausing: Pausing } }> {
  const wire = await startWire(`unix:${socketPath}`)
  onTestFinished(() => wire.close())
  const connection = { host: '127.0.0.1', port: wire.port, protocol: 'http' } as const
  return { wire, backend: await bench.open({ connection }) }
}

export const openEngine = () => Engine.open({ socketPath: socketPath as string })

/** Asks the engine itself. */
export async function engine<T>(method: string, path: string, body?: object): Promise<T> {
  const { promise, resolve, reject } = Promise.withResolvers<http.IncomingMessage>()
  const headers = body && { 'content-type': 'application/json' }
  const request = http.request({ socketPath, path, method, agent: false, ...(headers && { headers }) }, resolve)
  request.on('error', reject).end(body && JSON.stringify(body))
  const response = await promise
  let said = ''
  for await (const text of response.setEncoding('utf8')) said += text
  if ((response.statusCode ?? 500) >= 400) throw new Error(`${method} ${path}: ${response.statusCode} ${said}`)
  return (said === '' ? undefined : JSON.parse(said)) as T
}

const listOf = (what: 'containers' | 'images', label: string, value: string) =>
  `/${what}/json?all=1&filters=${encodeURIComponent(JSON.stringify({ label: [`${label}=${value}`] }))}`

export const imagesOf = ({ fleet }: Pick<Bench, 'fleet'>) =>
  engine<{ Id: string; RepoTags: string[] | null }[]>('GET', listOf('images', 'sandman.image.fleet', fleet))

async function cleanUp(fleet: string): Promise<void> {
  const containers = await engine<{ Id: string }[]>('GET', listOf('containers', 'sandman.fleet', fleet))
  for (const { Id } of containers) await engine('DELETE', `/containers/${Id}?force=1&v=1`).catch(() => {})
  for (const { Id } of await imagesOf({ fleet })) await engine('DELETE', `/images/${Id}?force=1`).catch(() => {})
}
