import { randomUUID } from 'node:crypto'
import { EventEmitter, once } from 'node:events'
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { onTestFinished } from 'vitest'
import { type Gate, gate } from './gate.ts'

/**
 * A provider of sandboxes as an HTTP server of its own, whose state outlives every worker: what is true is what it has, and
 * what it says may be something else. `test-backend.ts` is its client.
 */

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

type Status =
  | { is: 'running' }
  | { is: 'terminated'; exitCode: number | null; signal: string | null; oomKilled?: boolean }
  | { is: 'restarted'; why: string }

/** An agent that says what a test has it say. Its output is what it has written; what a stream shows of it may be less. */
export class FakeAgent {
  readonly command: string[]
  readonly startedIn: number
  status: Status = { is: 'running' }
  /** So often its status is told as it was before it ended. */
  lagsFor = 0
  /** It does not stop when it is asked to. */
  isStubborn = false
  /** What it does when it is asked to. */
  whenStopped = (): void => this.exit({ signal: 'SIGTERM' })
  bytes = Buffer.alloc(0)
  readonly #changed = new EventEmitter().setMaxListeners(0)

  constructor(command: string[], startedIn: number) {
    this.command = command
    this.startedIn = startedIn
  }

  write(text: string | Uint8Array): void {
    this.bytes = Buffer.concat([this.bytes, Buffer.from(text as string)])
    this.#changed.emit('change')
  }

  exit(end: { exitCode?: number; signal?: string; oomKilled?: boolean; statusLagsFor?: number } = {}): void {
    const { exitCode = end.signal === undefined ? 0 : null, signal = null, oomKilled, statusLagsFor = 0 } = end
    this.lagsFor = statusLagsFor
    this.status = { is: 'terminated', exitCode, signal, ...(oomKilled !== undefined && { oomKilled }) }
    this.#changed.emit('change')
  }

  /** Every stream of it is cut. */
  breakStreams(): void {
    this.#changed.emit('cut')
  }

  /** Its streams look again whether there is anything left to stream from. */
  stir(): void {
    this.#changed.emit('change')
  }

  get hasEnded(): boolean {
    return this.status.is !== 'running'
  }

  changed(): Promise<unknown> {
    return once(this.#changed, 'change')
  }

  onCut(cut: () => void): void {
    this.#changed.once('cut', cut)
  }
}

/** What may happen to a stream that began well: after so many bytes it is reset, ends as if there were no more, or hangs. */
export type StreamFault = { afterBytes: number; afterMs?: number; how: 'reset' | 'end' | 'hang' }

export type FakeCheckpoint = {
  ref: string
  of: string
  /** What nobody has labelled is in nobody's list. */
  fleet?: string
  sandboxId?: string
  kind?: 'pause' | 'snapshot'
  condition: 'ready' | 'pending' | 'missing' | 'corrupt'
}

/** What may happen to a call, instead of an answer. */
export type Fault =
  /** Never answered. `performed` first, or not. */
  | { kind: 'hang'; performed: boolean }
  /** The connection is cut: before it was performed, or after, so that only the answer is lost. */
  | { kind: 'cut'; performed: boolean }
  /** A gateway's 404 in plain text. */
  | { kind: 'plain 404' }
  | { kind: 'status'; status: number }
  /** It says that it has done it, and has not. */
  | { kind: 'lie' }
  /** The provider's own typed error. */
  | { kind: 'error'; type: string; message: string }

export type Method =
  | 'find'
  | 'list'
  | 'listCheckpoints'
  | 'create'
  | 'adopt'
  | 'look'
  | 'end'
  | 'run'
  | 'endLingering'
  | 'suspend'
  | 'resume'
  | 'verify'
  | 'discard'
  | 'take'
  | 'lease'
  | 'startAgent'
  | 'stopAgent'
  | 'agentStatus'
  | 'attach'

type Creation = {
  fleet: string
  sandboxId: string
  life: string
  ttlMs: number
  spec?: { agent?: { command: string[] } }
}
type Attach = { ref: string; agent: { incarnation: string; key?: string }; from: number }
type Body = Record<string, never> & { [key: string]: unknown }
type Reply = { result: unknown } | { error: { type: string; message: string } }

export type FakePage = { items: { ref: string }[]; next: string | null }

const STREAM_PIECE = 64 * 1024

/** What resuming sets the time-to-live to, whatever was asked for: silently, as some do. */
const TTL_AFTER_RESUME_MS = 300_000

const HONEST = {
  losesCheckpoints: false,
  thawsWithoutCheckpoint: false,
  neverReady: false,
  verifiesUntilReady: 0,
  ttlMsMax: Number.POSITIVE_INFINITY,
  runs: (command: string): { exitCode: number; output: string } => ({
    exitCode: 0,
    output: command.includes('awake') ? 'awake\n' : '',
  }),
  previewStatus: 200,
  starts: (_agent: FakeAgent): void => {},
  breaksStreams: (_from: number): StreamFault | undefined => undefined,
  tellsTotals: true,
  shows: (_ref: string): boolean => true,
  turnsPages: (page: FakePage): FakePage => page,
  failsFor: (_ref: string): boolean => false,
  pageSize: 100,
}

export class FakeProvider {
  readonly instances = new Map<string, FakeInstance>()
  readonly checkpoints = new Map<string, FakeCheckpoint>()
  /** Every call that was performed, in order. */
  readonly performed: { method: Method; ref: string; body: Record<string, unknown> }[] = []

  // Ways to lie and to disappoint.
  /** A suspend that says it worked, and keeps no checkpoint. */
  losesCheckpoints = HONEST.losesCheckpoints
  /** What it makes never gets ready. */
  neverReady = HONEST.neverReady
  /** It still has the memory of what it suspended, and wakes it without looking at the checkpoint. */
  thawsWithoutCheckpoint = HONEST.thawsWithoutCheckpoint
  /** A checkpoint that is there only after it was asked about so often. */
  verifiesUntilReady = HONEST.verifiesUntilReady
  /** Longer than this it lets nobody live. */
  ttlMsMax = HONEST.ttlMsMax
  /** What a command inside ends with. */
  runs = HONEST.runs
  /** What listens inside answers with this. */
  previewStatus = HONEST.previewStatus

  /** What an agent does as soon as it was started. */
  starts = HONEST.starts
  /** How a stream breaks that was attached from this byte on. */
  breaksStreams = HONEST.breaksStreams
  /** With the output of an agent that has ended, how long that is. */
  tellsTotals = HONEST.tellsTotals

  /** Whether a list shows it. What it does not show is there all the same. */
  shows = HONEST.shows
  pageSize = HONEST.pageSize
  /** Of these, single looks fail. */
  failsFor = HONEST.failsFor
  /** What becomes of a page before it is sent. */
  turnsPages = HONEST.turnsPages

  /** Bytes of output that were handed to sockets. */
  streamed = 0

  readonly #server: Server
  readonly #once = new Map<Method, Fault[]>()
  readonly #always = new Map<Method, Fault>()
  readonly #gates = new Map<Method, Gate>()
  readonly #attempts = new Map<Method, number>()

  private constructor(server: Server) {
    this.#server = server
  }

  static async start(): Promise<FakeProvider> {
    const server = createServer()
    const provider = new FakeProvider(server)
    server.on('request', (request, response) => {
      provider.#serve(request, response).catch((error: unknown) => {
        response.writeHead(500).end(String(error))
      })
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    return provider
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  async stop(): Promise<void> {
    this.#server.closeAllConnections()
    await new Promise((resolve) => this.#server.close(resolve))
  }

  /** The next calls of this method meet these, one each. */
  next(method: Method, ...faults: Fault[]): void {
    this.#once.set(method, [...(this.#once.get(method) ?? []), ...faults])
  }

  /** Until it is healed. */
  always(method: Method, fault: Fault): void {
    this.#always.set(method, fault)
  }

  heal(): void {
    this.#once.clear()
    this.#always.clear()
  }

  /** As at the beginning, but for what it has. */
  becomeHonest(): void {
    this.heal()
    Object.assign(this, HONEST)
  }

  /** Calls of this method stop here before they are performed, until the gate is opened. */
  holdAt(method: Method): Gate {
    const held = gate()
    this.#gates.set(method, held)
    const open = () => {
      if (this.#gates.get(method) === held) this.#gates.delete(method)
      held.open()
    }
    onTestFinished(open)
    return {
      get entries() {
        return held.entries
      },
      enter: held.enter,
      entered: held.entered,
      open,
    }
  }

  /** The next call of this method, and only that, is on its way until the gate is opened. */
  holdOnceAt(method: Method): Gate {
    const held = this.holdAt(method)
    void held.entered(1).then(() => this.#gates.delete(method))
    return held
  }

  /** How often it was called, also where that met a fault. */
  attempts(method: Method): number {
    return this.#attempts.get(method) ?? 0
  }

  count(method: Method, ref?: string): number {
    return this.performed.filter((call) => call.method === method && (ref === undefined || call.ref === ref)).length
  }

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

  async #serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const [, what, name = ''] = new URL(request.url ?? '/', 'http://x').pathname.split('/')
    if (what === 'preview') {
      const isUp = this.instances.get(decodeURIComponent(name))?.state === 'running'
      response.writeHead(isUp ? this.previewStatus : 502).end('hello')
      return
    }
    const method = name as Method
    const body = JSON.parse(await read(request)) as Body
    this.#attempts.set(method, this.attempts(method) + 1)
    await this.#gates.get(method)?.enter()
    const isAway = method === 'look' && this.failsFor(String(body.ref))
    const away = isAway ? ({ kind: 'status', status: 503 } as const) : undefined
    const fault = away ?? this.#once.get(method)?.shift() ?? this.#always.get(method)
    const performs = !fault || ('performed' in fault && fault.performed)
    if (performs && !fault && method === 'attach') return this.#stream(response, body as unknown as Attach)
    const reply = performs ? this.#perform(method, body) : undefined
    switch (fault?.kind) {
      case 'hang':
        return
      case 'cut':
        request.socket.destroy()
        return
      case 'plain 404':
        response.writeHead(404, { 'content-type': 'text/plain' }).end('404 page not found')
        return
      case 'status':
        response.writeHead(fault.status).end('something went wrong')
        return
      case 'lie':
        send(response, { result: null })
        return
      case 'error':
        send(response, { error: fault })
        return
      default:
        send(response, reply as Reply)
    }
  }

  #perform(method: Method, body: Body): Reply {
    const ref = String(body.ref ?? body.sandboxId ?? body.checkpointRef)
    this.performed.push({ method, ref, body })
    const instance = this.instances.get(ref)
    const target = body.target as { ref: string; incarnation: string | null } | undefined
    if (target) {
      const there = this.instances.get(target.ref)
      if (!there) return method === 'end' ? { result: null } : notFound(target.ref)
      const actual = there.state === 'running' ? String(there.incarnation) : null
      // A sandbox that sleeps already has been suspended; every other call was meant for what is there.
      if (actual !== target.incarnation && !(method === 'suspend' && there.state === 'suspended'))
        return { error: { type: 'overtaken', message: `${target.ref} is incarnation ${actual}` } }
      return this.#act(method, there, body)
    }
    switch (method) {
      case 'find':
        return {
          result: this.instancesOf(ref)
            .filter(({ fleet }) => fleet === body.fleet)
            .map(({ ref, life }) => ({ ref, life })),
        }
      case 'list':
        return { result: this.#page([...this.instances.values()], body) }
      case 'listCheckpoints':
        return { result: this.#page([...this.checkpoints.values()], body) }
      case 'create':
        return { result: { ref: this.#create(body as unknown as Creation) } }
      case 'adopt': {
        if (!instance) return notFound(ref)
        Object.assign(instance, body.owner)
        return { result: null }
      }
      case 'look':
        return { result: instance ? this.#sighting(instance) : { is: 'absent' } }
      case 'resume':
        return instance ? this.#resume(instance, body as unknown as { key: string }) : notFound(ref)
      case 'agentStatus':
        return instance
          ? { result: this.#agentStatus(instance, body.agent as unknown as { incarnation: string; key?: string }) }
          : notFound(ref)
      case 'stopAgent': {
        const { key = '' } = body.agent as unknown as { key?: string }
        const agent = instance?.agents.get(key)
        if (!instance) return notFound(ref)
        if (agent && !agent.hasEnded && !agent.isStubborn) agent.whenStopped()
        return { result: null }
      }
      case 'verify':
        return { result: this.#verify(ref) }
      case 'discard':
        this.checkpoints.delete(ref)
        return { result: null }
      default:
        throw new Error(`no such method: ${method}`)
    }
  }

  /** Of all fleets that ask here, each sees its own. The order is that of the names, and a page begins behind a name. */
  #page<T extends { ref: string; fleet?: string; sandboxId?: string }>(all: T[], { fleet, cursor }: Body) {
    const own = all
      .filter((item) => item.fleet === fleet && this.shows(item.ref) && item.ref > String(cursor ?? ''))
      .sort((a, b) => (a.ref < b.ref ? -1 : 1))
    const items = own.slice(0, this.pageSize).map((item) => ({
      ref: item.ref,
      fleet: item.fleet,
      sandboxId: item.sandboxId,
      ...('life' in item && { life: item.life }),
      ...('state' in item && item.state === 'lost' && { isLost: true }),
      ...('kind' in item && { kind: item.kind }),
    }))
    return this.turnsPages({ items, next: own.length > this.pageSize ? (items.at(-1)?.ref ?? null) : null })
  }

  agentKeysOf(sandboxId: string): string[] {
    return this.instancesOf(sandboxId).flatMap(({ agents }) => [...agents.keys()])
  }

  async #stream(response: ServerResponse, { ref, agent: { incarnation, key }, from }: Attach): Promise<void> {
    const instance = this.instances.get(ref)
    const agent = instance?.agents.get(key ?? '')
    this.performed.push({ method: 'attach', ref, body: { from } })
    if (!instance || !agent) return send(response, notFound(ref))
    const isThere = () => this.instances.has(ref) && String(instance.incarnation) === incarnation
    const fault = this.breaksStreams(from)
    const most = from + (fault?.afterBytes ?? Number.POSITIVE_INFINITY)
    const total = agent.hasEnded && isThere() && this.tellsTotals ? { 'x-total-bytes': agent.bytes.length } : {}
    response.writeHead(200, { 'content-type': 'application/octet-stream', ...total }).flushHeaders()
    const closed = once(response, 'close')
    agent.onCut(() => response.destroy())
    for (let at = from; !response.destroyed; ) {
      const piece = agent.bytes.subarray(at, Math.min(at + STREAM_PIECE, most))
      at += piece.length
      this.streamed += piece.length
      if (piece.length > 0 && !response.write(piece)) await Promise.race([once(response, 'drain'), closed])
      if (fault && at === most) {
        if (fault.how === 'hang') return
        // What was sent has to arrive: the break comes behind it, and not instead of it.
        await new Promise<void>((resolve) => setTimeout(resolve, fault.afterMs ?? 1))
        fault.how === 'end' ? response.end() : response.destroy()
        return
      }
      if (at < agent.bytes.length) continue
      if (agent.hasEnded || !isThere()) {
        response.end()
        return
      }
      await Promise.race([agent.changed(), closed])
    }
  }

  #agentStatus(instance: FakeInstance, { incarnation, key }: { incarnation: string; key?: string }): unknown {
    if (instance.state === 'suspended') return { is: 'asleep' }
    if (String(instance.incarnation) !== incarnation)
      return { is: 'restarted', why: `It is incarnation ${instance.incarnation} by now.` }
    const agent = instance.agents.get(key ?? '')
    if (!agent) return { is: 'none' }
    if (agent.hasEnded && agent.lagsFor-- > 0) return { is: 'running' }
    return agent.status
  }

  #act(method: Method, instance: FakeInstance, body: Body): Reply {
    const { ref } = instance
    switch (method) {
      case 'end':
        this.instances.delete(ref)
        for (const agent of instance.agents.values()) agent.stir()
        return { result: null }
      case 'run': {
        instance.commands.push(String(body.command))
        return { result: this.runs(String(body.command)) }
      }
      case 'endLingering':
        return { result: null }
      case 'startAgent': {
        const key = String(body.key)
        if (!instance.agents.has(key)) {
          const agent = new FakeAgent(body.command as unknown as string[], instance.incarnation)
          instance.agents.set(key, agent)
          this.starts(agent)
        }
        return { result: null }
      }
      case 'suspend': {
        if (instance.state === 'suspended') return { result: null }
        instance.state = 'suspended'
        instance.checkpointRef = this.losesCheckpoints ? undefined : this.#keep(instance, 'pause')
        return { result: null }
      }
      case 'take': {
        const checkpointRef = `snapshot-${String(body.key)}`
        if (!this.checkpoints.has(checkpointRef)) this.#keep(instance, 'snapshot', checkpointRef)
        return { result: { checkpointRef } }
      }
      case 'lease':
        instance.endsAtMs = Date.now() + Math.min(Number(body.ttlMs), this.ttlMsMax)
        return { result: null }
      default:
        throw new Error(`no such method: ${method}`)
    }
  }

  #create({ fleet, sandboxId, life, ttlMs, spec }: Creation): string {
    const made = this.instancesOf(sandboxId).find((instance) => instance.fleet === fleet && instance.life === life)
    if (made) return made.ref
    const ref = `vm-${randomUUID().slice(0, 8)}`
    const instance: FakeInstance = {
      ref,
      fleet,
      sandboxId,
      life,
      state: this.neverReady ? 'changing' : 'running',
      incarnation: 1,
      wokenBy: [],
      checkpointRef: undefined,
      endsAtMs: Date.now() + Math.min(ttlMs, this.ttlMsMax),
      commands: [],
      agents: new Map(spec?.agent ? [['', new FakeAgent(spec.agent.command, 1)]] : []),
    }
    this.instances.set(ref, instance)
    return ref
  }

  #keep(instance: FakeInstance, kind: 'pause' | 'snapshot', ref = `ckpt-${randomUUID().slice(0, 8)}`): string {
    const { ref: of, fleet, sandboxId } = instance
    this.checkpoints.set(ref, { ref, of, fleet, sandboxId, kind, condition: 'ready' })
    return ref
  }

  #resume(instance: FakeInstance, { key }: { key: string }): Reply {
    if (instance.state === 'running') return { result: null }
    const kept = instance.checkpointRef === undefined ? undefined : this.checkpoints.get(instance.checkpointRef)
    if (!this.thawsWithoutCheckpoint && (!kept || kept.condition === 'missing'))
      return {
        error: { type: 'checkpoint_missing', message: `${instance.ref} is suspended but has no checkpoint data` },
      }
    if (kept?.condition === 'corrupt')
      return { error: { type: 'checkpoint_corrupt', message: `${kept.ref} cannot be read: checksum mismatch` } }
    instance.state = 'running'
    instance.incarnation++
    instance.wokenBy.push(key)
    instance.endsAtMs = Date.now() + TTL_AFTER_RESUME_MS
    return { result: null }
  }

  #sighting(instance: FakeInstance): unknown {
    switch (instance.state) {
      case 'running':
        return { is: 'running', incarnation: String(instance.incarnation), endsAtMs: instance.endsAtMs }
      case 'suspended':
        return { is: 'suspended', checkpointRef: instance.checkpointRef ?? null }
      case 'changing':
        return { is: 'changing', why: 'it takes its time' }
      case 'lost':
        return { is: 'lost', why: 'its node is gone' }
    }
  }

  #verify(ref: string): unknown {
    const kept = this.checkpoints.get(ref)
    if (this.verifiesUntilReady > 0) {
      this.verifiesUntilReady--
      return { is: 'pending' }
    }
    if (!kept) return { is: 'missing', why: 'there is no such checkpoint' }
    return kept.condition === 'ready'
      ? { is: 'ready', sizeBytes: 4_096 }
      : { is: kept.condition, why: 'so it was scripted' }
  }
}

function notFound(ref: string): Reply {
  return { error: { type: 'not_found', message: `there is no ${ref}` } }
}

async function read(request: IncomingMessage): Promise<string> {
  let text = ''
  for await (const chunk of request.setEncoding('utf8')) text += chunk
  return text
}

function send(response: ServerResponse, reply: Reply): void {
  const status = 'error' in reply ? (reply.error.type === 'not_found' ? 404 : 409) : 200
  response.writeHead(status, { 'content-type': 'application/json' }).end(JSON.stringify(reply))
}
