import http, { type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../proof/random.ts'

/** What may happen to a call on its way. What is passed on is done, whatever is heard of it. */
const MISHAPS = {
  /** Not passed on, and answered by a gateway. */
  refused: 8,
  /** Not passed on: the connection is reset. */
  reset: 3,
  /** Passed on and done, and the answer is lost. */
  lost: 4,
  /** Passed on and done, and the answer breaks off in its middle. */
  cut: 3,
  /** Nobody answers for a while, and then the connection is reset. Half of them are done all the same. */
  hung: 2,
} as const

type Mishap = keyof typeof MISHAPS
/** Of the calls while it was on. */
export type Counted = Record<Mishap | 'calls', number>

/** A fifth of all calls on the average: providers fail in fits, and work in between. */
const BAD_SHARE = { calm: 0.04, storm: 0.36 } as const
const SPELL_MS = [1_000, 4_000] as const
/** Shorter than some of a worker's own deadlines, and longer than others. */
const HUNG_MS = [1_000, 20_000] as const
const CUT_AFTER_BYTES_MAX = 2_000

const GATEWAY = [
  { status: 500, body: 'Internal Server Error' },
  { status: 502, body: '<html><head><title>502 Bad Gateway</title></head></html>' },
  { status: 503, body: 'upstream connect error' },
  { status: 429, body: 'slow down' },
] as const

/** What is between workers and their provider. It knows nothing of either. */
export class FaultyWay {
  readonly counted: Counted = { calls: 0, refused: 0, reset: 0, lost: 0, cut: 0, hung: 0 }
  readonly #target: URL
  readonly #server = http.createServer({ keepAliveTimeout: 600_000 })
  readonly #agent = new http.Agent({ keepAlive: true })
  #random = new Random('')
  #isOn = false
  #isStorm = false
  #spellEndsAt = 0
  #awayUntil = 0
  /** Aborted when there is quiet: who hangs then is reset. */
  #quiet = new AbortController()

  private constructor(target: string) {
    this.#target = new URL(target)
    this.#server.on('request', (request, response) => void this.#carry(request, response))
  }

  static async to(target: string): Promise<FaultyWay> {
    const way = new FaultyWay(target)
    await new Promise<void>((resolve) => way.#server.listen(0, '127.0.0.1', resolve))
    return way
  }

  get url(): string {
    return `http://127.0.0.1:${(this.#server.address() as AddressInfo).port}`
  }

  setWeather({ seed, isOn }: { seed: number; isOn: boolean }): void {
    this.#isOn = isOn
    this.#random = new Random(`${seed} weather`)
    if (isOn) return
    this.#awayUntil = 0
    this.#quiet.abort()
    this.#quiet = new AbortController()
  }

  away(forMs: number): void {
    if (this.#isOn) this.#awayUntil = Date.now() + forMs
  }

  async #carry(request: IncomingMessage, response: ServerResponse): Promise<void> {
    if (this.#isOn) this.counted.calls++
    const mishap = this.#mishap()
    if (mishap) this.counted[mishap]++
    response.on('error', () => {})
    request.on('error', () => {})
    if (mishap === 'refused') {
      request.resume()
      const { status, body } = this.#random.pick(GATEWAY)
      response.writeHead(status, { 'content-type': 'text/plain' }).end(body)
      return
    }
    if (mishap === 'reset') return reset(request)
    if (mishap === 'hung') {
      const isDone = this.#random.chance(0.5)
      if (isDone) this.#passOn(request, (answer) => answer?.resume())
      await sleep(this.#random.between(...HUNG_MS), undefined, { signal: this.#quiet.signal }).catch(() => {})
      return reset(request)
    }
    const cutAfter = mishap === 'cut' ? this.#random.below(CUT_AFTER_BYTES_MAX) : undefined
    this.#passOn(request, (answer) => {
      if (!answer || mishap === 'lost') {
        answer?.resume()
        return reset(request)
      }
      deliver(answer, request, response, cutAfter)
    })
  }

  #mishap(): Mishap | undefined {
    if (!this.#isOn) return undefined
    const now = Date.now()
    if (now < this.#awayUntil) return this.#random.pick(['reset', 'hung'] as const)
    if (now >= this.#spellEndsAt) {
      this.#isStorm = !this.#isStorm
      this.#spellEndsAt = now + this.#random.between(...SPELL_MS)
    }
    const isBad = this.#random.chance(BAD_SHARE[this.#isStorm ? 'storm' : 'calm'])
    return isBad ? this.#random.weighted(MISHAPS) : undefined
  }

  /** All of the request, also when whoever has sent it is gone: it has left, and arrives. */
  #passOn(request: IncomingMessage, answered: (answer: IncomingMessage | undefined) => void): void {
    const { method, url, headers } = request
    const { hostname, port } = this.#target
    const passed = http.request({ agent: this.#agent, hostname, port, method, path: url, headers }, answered)
    passed.on('error', () => answered(undefined))
    request.pipe(passed)
  }
}

function deliver(answer: IncomingMessage, request: IncomingMessage, response: ServerResponse, cutAfter?: number): void {
  response.writeHead(answer.statusCode ?? 502, answer.headers)
  let left = cutAfter ?? Number.POSITIVE_INFINITY
  answer.on('data', (bytes: Buffer) => {
    const piece = bytes.subarray(0, left)
    left -= piece.length
    if (!response.write(piece)) {
      answer.pause()
      response.once('drain', () => answer.resume())
    }
    if (left <= 0) response.destroy()
  })
  // An answer that is shorter than that breaks off before its end.
  answer.on('end', () => (cutAfter === undefined ? response.end() : response.destroy()))
  answer.on('error', () => reset(request))
  response.on('close', () => answer.destroy())
}

function reset({ socket }: IncomingMessage): void {
  socket.resetAndDestroy()
}
