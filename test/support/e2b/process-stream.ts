import type { ServerResponse } from 'node:http'
import type { End, EnvdProcess, Follower, Output } from './envd-process.ts'
import type { StreamFault } from './faults.ts'
import type { Reply } from './replies.ts'
import { frame, lastFrame, RpcError, STREAM_HEADERS } from './rpc.ts'
import type { Vm } from './vm.ts'

type StreamOptions = {
  keepaliveMs: number
  /** Zero is for ever. */
  deadlineMs: number
  fault: StreamFault | undefined
}

/** What was sent has to arrive: a break comes behind it, and not instead of it. */
const ARRIVAL_MS = 5

/** What a process writes from now on, and how it ends. Nothing is read of it before somebody listens, or it is clear that nobody will. */
export function followProcess(vm: Vm, followed: EnvdProcess, options: StreamOptions): Reply {
  return {
    stream: (response) => {
      const stream = new ProcessStream(response, followed, options)
      vm.streams.add(response)
      response.on('close', () => {
        vm.streams.delete(response)
        stream.close()
      })
    },
    drop: () => followed.flow(),
  }
}

/** Of a process that has ended there is nothing left but how. */
export function tellEnd({ pid, end }: { pid: number; end: End }): Reply {
  const events = [{ start: { pid } }, { end }].map((event) => frame({ event }))
  return { stream: (response) => response.writeHead(200, STREAM_HEADERS).end(Buffer.concat([...events, lastFrame()])) }
}

class ProcessStream implements Follower {
  readonly #response: ServerResponse
  readonly #followed: EnvdProcess
  readonly #fault: StreamFault | undefined
  readonly #timers: NodeJS.Timeout[]
  #sentBytes = 0
  #isBroken = false

  constructor(response: ServerResponse, followed: EnvdProcess, { keepaliveMs, deadlineMs, fault }: StreamOptions) {
    this.#response = response
    this.#followed = followed
    this.#fault = fault
    const keepalive = setInterval(() => this.#write({ keepalive: {} }), keepaliveMs)
    const deadline = deadlineMs > 0 ? [setTimeout(() => this.#expire(), deadlineMs)] : []
    this.#timers = [keepalive, ...deadline].map((timer) => timer.unref())
    response.on('drain', () => followed.flow(this))
    response.writeHead(200, STREAM_HEADERS)
    this.#write({ start: { pid: followed.pid } })
    followed.follow(this)
    this.#breakIfDue()
  }

  take(from: Output, bytes: Buffer): 'more' | 'enough' {
    if (this.#isBroken) return 'more'
    const piece = bytes.subarray(0, (this.#fault?.afterBytes ?? Number.POSITIVE_INFINITY) - this.#sentBytes)
    this.#sentBytes += piece.length
    const isTaken = this.#write({ data: { [from]: piece.toString('base64') } })
    this.#breakIfDue()
    return isTaken || this.#isBroken ? 'more' : 'enough'
  }

  end(end: End): void {
    this.#write({ end })
    this.#finish(lastFrame())
  }

  close(): void {
    for (const timer of this.#timers) clearTimeout(timer)
    this.#followed.unfollow(this)
  }

  #write(event: unknown): boolean {
    return this.#isBroken || this.#response.write(frame({ event }))
  }

  #finish(last?: Buffer): void {
    if (!this.#isBroken) this.#response.end(last)
  }

  #expire(): void {
    this.#finish(lastFrame(new RpcError('deadline_exceeded', 'context deadline exceeded')))
  }

  #breakIfDue(): void {
    if (!this.#fault || this.#isBroken || this.#sentBytes < this.#fault.afterBytes) return
    const { how } = this.#fault
    if (how === 'end') this.#finish(lastFrame())
    if (how === 'short') this.#finish()
    this.#isBroken = true
    const { socket } = this.#response
    if (how === 'reset') setTimeout(() => socket?.resetAndDestroy(), ARRIVAL_MS)
    if (how === 'cut') setTimeout(() => this.#response.destroy(), ARRIVAL_MS)
  }
}
