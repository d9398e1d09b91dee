import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import type { KubeConfig } from '@kubernetes/client-node'
import { unlessGivenUp } from '../answer.ts'
import { BackendError, type Call } from '../backend.ts'
import { Refusal, Unreadable } from './errors.ts'

type Query = Record<string, string | number | boolean | undefined>
type PatchType = 'json-patch' | 'merge-patch'
type Asked = {
  method?: 'GET' | 'POST' | 'PATCH' | 'DELETE'
  path: string
  query?: Query
  body?: object
  /** How a patch is meant. */
  as?: PatchType
}

/** Lists come in pages; this only keeps an answer that never ends from filling the memory. */
const ANSWER_BYTES_MAX = 256 * 1024 * 1024
/** What is not used for so long is closed here, before a load balancer on the way does it, and a call is lost in that. */
const IDLE_MS_MAX = 20_000
/** A cluster that does not answer at all is noticed by the deadline of each call, and by this for those that wait for long. */
const PROBED_AFTER_MS = 30_000

/**
 * The HTTP API of a cluster. The SDK knows where that is and how to be let in: certificates, tokens that are renewed, plugins,
 * proxies. Requests are made here, all on one pool of connections: the SDK opens one for every call, cannot be given up in the
 * middle of an answer, and ends the process when a log that it follows is reset.
 */
export class Api {
  readonly #config: KubeConfig
  readonly #server: URL
  readonly #pool: http.Agent | undefined

  constructor(config: KubeConfig) {
    const cluster = config.getCurrentCluster()
    if (!cluster) throw new Error('The kubeconfig names no cluster: set its current context.')
    this.#config = config
    this.#server = new URL(cluster.server)
    const kept = { keepAlive: true, timeout: IDLE_MS_MAX, keepAliveMsecs: PROBED_AFTER_MS }
    // Where there is a proxy, the SDK's own agent knows the way through it.
    if (!cluster.proxyUrl)
      this.#pool = this.#server.protocol === 'https:' ? new https.Agent(kept) : new http.Agent(kept)
  }

  get server(): string {
    return this.#server.href
  }

  /** An answer in JSON. What is not an object is not the API server's. */
  async json<T extends object>(asked: Asked, call: Call): Promise<T> {
    const response = await this.stream(asked, call)
    const text = await textOf(response)
    try {
      const value: unknown = JSON.parse(text)
      if (typeof value === 'object' && value !== null) return value as T
    } catch {}
    throw new Unreadable(named(asked), text)
  }

  /** An answer that comes in pieces. Whoever reads it has to destroy it if it is not read to its end. */
  async stream(asked: Asked, call: Call): Promise<IncomingMessage> {
    const response = await this.#ask(asked, call)
    const { statusCode = 0 } = response
    if (statusCode >= 200 && statusCode < 300) return response
    throw new Refusal(named(asked), statusCode, await textOf(response))
  }

  close(): void {
    this.#pool?.destroy()
  }

  async #ask(asked: Asked, call: Call): Promise<IncomingMessage> {
    try {
      return await this.#send(asked, call)
    } catch (error) {
      // A connection that was kept may have been closed at its other end just then. What only reads may be asked again.
      if (!(error instanceof ClosedBefore) || (asked.method ?? 'GET') !== 'GET') throw unwrapped(error)
      return this.#send(asked, call).catch((again: unknown) => {
        throw unwrapped(again)
      })
    }
  }

  async #send({ method = 'GET', path, query = {}, body, as }: Asked, call: Call): Promise<IncomingMessage> {
    const { signal } = call
    signal.throwIfAborted()
    const options: https.RequestOptions = {}
    const applying = this.#config.applyToHTTPSOptions(options).catch((cause: unknown) => {
      throw new BackendError('provider_unauthorized', `The kubeconfig's credentials cannot be had: ${cause}`, { cause })
    })
    // Credentials may come from a program, and to run that has no signal.
    await unlessGivenUp(applying, call)
    const text = body === undefined ? undefined : JSON.stringify(body)
    const headers = {
      ...options.headers,
      accept: 'application/json, */*;q=0.8',
      ...(text !== undefined && {
        'content-type': as ? `application/${as}+json` : 'application/json',
        'content-length': Buffer.byteLength(text),
      }),
    }
    const url = new URL(`${this.#server.pathname.replace(/\/$/, '')}${path}`, this.#server)
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, `${value}`)
    const { request } = this.#server.protocol === 'https:' ? https : http
    return new Promise((resolve, reject) => {
      const sent = request(url, { ...options, method, headers, signal, agent: this.#pool ?? options.agent })
      sent.on('response', resolve)
      sent.on('error', (error) => reject(sent.reusedSocket ? new ClosedBefore(error) : error))
      sent.end(text)
    })
  }
}

/** It failed on a connection that had been used before. */
class ClosedBefore extends Error {
  constructor(cause: Error) {
    super('a connection that was kept is gone', { cause })
  }
}

function unwrapped(error: unknown): unknown {
  return error instanceof ClosedBefore ? error.cause : error
}

function named({ method = 'GET', path }: Asked): string {
  return `${method} ${path}`
}

async function textOf(response: IncomingMessage): Promise<string> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    pieces.push(piece)
    length += piece.length
    if (length > ANSWER_BYTES_MAX) throw new BackendError('sandbox_unreachable', 'An answer of Kubernetes does not end')
  }
  return Buffer.concat(pieces).toString()
}
