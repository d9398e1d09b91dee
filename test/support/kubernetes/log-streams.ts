import type { ServerResponse } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { LogOptions } from './log-requests.ts'
import type { ContainerLog, LogEntry } from './runtime/log.ts'

/** What may happen to a log that is being read. */
export type LogCut =
  /** A clean end between two lines. */
  | 'end'
  /** A clean end in the middle of a line. */
  | 'mid-line'
  | 'reset'
  /** It stays open, and nothing comes. */
  | 'stall'
  /** Byte by byte. */
  | 'drip'

type Scripted = { how: LogCut; afterBytes: number; left: number }
const DRIP_MS = 1

/** All logs that are being read, and what is done to them. */
export class LogStreams {
  readonly #open = new Set<LogStream>()
  #scripted: Scripted[] = []

  get count(): number {
    return this.#open.size
  }

  /** Of those that are open: as much as was taken from them. */
  get sentBytes(): number[] {
    return [...this.#open].map(({ sentBytes }) => sentBytes)
  }

  /** Now, and to all that are open. */
  cut(how: LogCut): void {
    for (const stream of this.#open) stream.cut(how)
  }

  /** To those that begin later, after exactly so many bytes. */
  cutNext(how: LogCut, afterBytes: number, times: number): void {
    this.#scripted.push({ how, afterBytes, left: times })
  }

  heal(): void {
    this.#scripted = []
  }

  async serve(log: ContainerLog | undefined, options: LogOptions, response: ServerResponse): Promise<void> {
    response.writeHead(200, { 'content-type': 'text/plain' })
    response.flushHeaders()
    const stream = new LogStream(response, options, this.#take())
    this.#open.add(stream)
    try {
      if (log) await stream.run(log)
      if (!stream.isCut) response.end()
    } finally {
      this.#open.delete(stream)
    }
  }

  #take(): Scripted | undefined {
    const [first] = this.#scripted
    if (!first) return undefined
    first.left -= 1
    if (first.left <= 0) this.#scripted.shift()
    return first
  }
}

class LogStream {
  readonly #response: ServerResponse
  readonly #options: LogOptions
  readonly #leaving = new AbortController()
  #scripted: Scripted | undefined
  #sentBytes = 0
  #remainingBytes: number
  #isDripping = false
  #cutsNextLine = false
  isCut = false

  constructor(response: ServerResponse, options: LogOptions, scripted: Scripted | undefined) {
    this.#response = response
    this.#options = options
    this.#scripted = scripted
    this.#remainingBytes = options.limitBytes ?? Number.POSITIVE_INFINITY
    response.on('close', () => this.#leaving.abort())
    if (scripted?.afterBytes === 0) this.#cutHere(scripted.how)
  }

  async run(log: ContainerLog): Promise<void> {
    const { follow, tailLines, sinceNs } = this.#options
    const first = tailLines === undefined ? log.firstIndex : Math.max(log.firstIndex, log.nextIndex - tailLines)
    const { signal } = this.#leaving
    const entries = follow ? log.entries(first, { signal }) : log.snapshot().slice(first - log.firstIndex)
    let isNewLine = true
    for await (const entry of entries) {
      if (signal.aborted || this.#remainingBytes <= 0) return
      // What was left out counts all the same: the rest of a line that began before has no time before it.
      if (sinceNs === undefined || entry.atNs >= sinceNs) await this.#write(entry, isNewLine)
      isNewLine = !entry.isPartial
    }
  }

  get sentBytes(): number {
    return this.#sentBytes
  }

  cut(how: LogCut): void {
    if (how === 'drip') this.#isDripping = true
    else if (how === 'mid-line') this.#cutsNextLine = true
    else this.#cutHere(how)
  }

  async #write({ atNs, bytes, isPartial }: LogEntry, isNewLine: boolean): Promise<void> {
    const prefix = this.#options.timestamps && isNewLine ? `${timestamp(atNs)} ` : ''
    const whole = Buffer.concat([Buffer.from(prefix), bytes, Buffer.from(isPartial ? '' : '\n')])
    const line = whole.subarray(0, Math.min(whole.length, this.#remainingBytes))
    this.#remainingBytes -= line.length
    if (this.#cutsNextLine) {
      await this.#send(line.subarray(0, Math.ceil(line.length / 2)))
      return this.#cutHere('end')
    }
    if (!this.#scripted) return this.#send(line)
    const { how, afterBytes } = this.#scripted
    const left = afterBytes - this.#sentBytes
    await this.#send(line.subarray(0, left))
    if (line.length < left) return
    if (how === 'drip') this.#isDripping = true
    else return this.#cutHere(how === 'mid-line' ? 'end' : how)
    this.#scripted = undefined
    await this.#send(line.subarray(left))
  }

  /** No more is taken from the log than is read by who asked for it. */
  async #send(bytes: Buffer): Promise<void> {
    this.#sentBytes += bytes.length
    const pieces = this.#isDripping ? [...bytes].map((byte) => Buffer.from([byte])) : [bytes]
    for (const piece of pieces) {
      if (this.#leaving.signal.aborted) return
      if (this.#isDripping) await sleep(DRIP_MS)
      if (this.#response.write(piece)) continue
      await new Promise<void>((resolve) => {
        this.#response.once('drain', resolve)
        this.#leaving.signal.addEventListener('abort', () => resolve(), { once: true })
      })
    }
  }

  #cutHere(how: 'end' | 'mid-line' | 'reset' | 'stall' | 'drip'): void {
    this.isCut = true
    if (how === 'reset') this.#response.socket?.resetAndDestroy()
    if (how === 'end' || how === 'mid-line') this.#response.end()
    this.#leaving.abort()
  }
}

/** With nine digits, always. */
export function timestamp(atNs: bigint): string {
  const ms = Number(atNs / 1_000_000n)
  const ns = String(atNs % 1_000_000_000n).padStart(9, '0')
  return `${new Date(ms).toISOString().slice(0, 19)}.${ns}Z`
}
