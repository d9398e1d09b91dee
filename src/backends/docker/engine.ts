import http, { type IncomingMessage } from 'node:http'
import https from 'node:https'
import { inspect } from 'node:util'
import type Dockerode from 'dockerode'
import { optionalPackage } from '../../optional-package.ts'
import { BackendError, type Call } from '../backend.ts'
import { Refusal, Unreadable } from './errors.ts'

export type Connection = Dockerode.DockerOptions

type Query = Record<string, string | number | boolean | object | undefined>
export type Asked = { method: 'GET' | 'POST' | 'DELETE'; path: string; query?: Query; body?: object }

/** Answers are short, but for lists; this only keeps a page that never ends from filling the memory. */
const ANSWER_BYTES_MAX = 64 * 1024 * 1024

/** Every status is an answer: what it means is decided in one place, by its text. */
const EVERY_STATUS = new Proxy({}, { get: () => true }) as Record<number, boolean>

const KEEPING_NONE = { keepAlive: false }

type Modem = { dial: Dial; protocol: string; agent?: object; headers: object }

type Dial = (
  options: {
    method: string
    path: string
    options: object
    statusCodes: Record<number, boolean>
    isStream: true
    abortSignal: AbortSignal
  },
  callback: (error: unknown, response: IncomingMessage) => void,
) => void

/**
 * The HTTP API of an engine. dockerode knows how to get there: over a socket, TCP, TLS or ssh. Answers are read here, because
 * an answer that is cut off would keep its callers waiting.
 */
export class Engine {
  readonly #dial: Dial

  private constructor(docker: Dockerode) {
    const { modem } = docker as unknown as { modem: Modem }
    // A connection that is kept open may have been closed by the engine, and a call that is sent on it fails for nothing: so none
    // is kept. But the engine is told `keep-alive`: otherwise it closes before its answer was read.
    modem.agent ??= modem.protocol === 'https' ? new https.Agent(KEEPING_NONE) : new http.Agent(KEEPING_NONE)
    // dockerode writes out all that a request is made of, down to every socket of the agent, whether or not anybody reads it.
    Object.assign(modem.agent, { [inspect.custom]: () => 'connections' })
    modem.headers = { Connection: 'keep-alive', ...modem.headers }
    this.#dial = modem.dial.bind(modem)
  }

  static async open(connection: Connection | undefined): Promise<Engine> {
    const { default: Docker } = await optionalPackage('dockerode', 'The backend docker', () => import('dockerode'))
    // Whoever says where it is does not want a part of the environment's DOCKER_HOST besides.
    const elsewhere = { host: undefined, port: undefined, protocol: undefined, pathPrefix: undefined }
    return new Engine(new Docker(connection && ({ ...elsewhere, ...connection } as Connection)))
  }

  /** An answer in JSON. What is not an object or a list is not the engine's. */
  async json<T extends object>(asked: Asked, call: Call): Promise<T> {
    const response = await this.#ask(asked, call)
    const text = await textOf(response, asked)
    if (isWell(response)) return parse<T>(text, asked)
    throw refusal(asked, response, text)
  }

  /** A list, for which the engine says `null` where there is nothing. */
  async list<T>(asked: Asked, call: Call): Promise<T[]> {
    const response = await this.#ask(asked, call)
    const text = await textOf(response, asked)
    if (!isWell(response)) throw refusal(asked, response, text)
    const listed = text.trim() === 'null' ? [] : parse<T[]>(text, asked)
    if (!Array.isArray(listed)) throw new Unreadable(asked.path, text)
    return listed
  }

  /** Something that is done, and whose answer says no more. */
  async done(asked: Asked, call: Call): Promise<void> {
    const response = await this.#ask(asked, call)
    const text = await textOf(response, asked)
    const { statusCode = 0 } = response
    if (statusCode === 201 || statusCode === 204) return
    throw isWell(response) ? new Unreadable(asked.path, text) : refusal(asked, response, text)
  }

  /** An answer that comes in pieces. Whoever reads it has to destroy it if it is not read to its end. */
  async stream(asked: Asked, call: Call): Promise<IncomingMessage> {
    const response = await this.#ask(asked, call)
    if (isWell(response)) return response
    throw refusal(asked, response, await textOf(response, asked))
  }

  async #ask({ method, path, query = {}, body = {} }: Asked, { signal }: Call): Promise<IncomingMessage> {
    signal.throwIfAborted()
    const given = Object.fromEntries(Object.entries(query).filter(([, value]) => value !== undefined))
    return new Promise((resolve, reject) => {
      this.#dial(
        {
          method,
          path: Object.keys(given).length > 0 ? `${path}?` : path,
          options: { _query: given, _body: body },
          statusCodes: EVERY_STATUS,
          isStream: true,
          abortSignal: signal,
        },
        (error, response) => (error ? reject(error) : resolve(response)),
      )
    })
  }
}

function isWell({ statusCode = 0 }: IncomingMessage): boolean {
  return statusCode >= 200 && statusCode < 300
}

async function textOf(response: IncomingMessage, { path }: Asked): Promise<string> {
  const pieces: Buffer[] = []
  let length = 0
  for await (const piece of response as AsyncIterable<Buffer>) {
    pieces.push(piece)
    length += piece.length
    if (length > ANSWER_BYTES_MAX) throw new BackendError('sandbox_unreachable', `The answer to ${path} does not end`)
  }
  return Buffer.concat(pieces).toString()
}

function parse<T>(text: string, { path }: Asked): T {
  try {
    const value: unknown = JSON.parse(text)
    if (typeof value === 'object' && value !== null) return value as T
  } catch {}
  throw new Unreadable(path, text)
}

/** The engine says why in JSON. Whoever else answers says it in words of its own, which are shown and not believed. */
function refusal({ method, path }: Asked, { statusCode = 0 }: IncomingMessage, text: string): Refusal {
  let message: unknown
  try {
    message = (JSON.parse(text) as { message?: unknown } | null)?.message
  } catch {}
  const asked = `${method} ${path}`
  return typeof message === 'string'
    ? new Refusal(statusCode, message, { asked, isOwn: true })
    : new Refusal(statusCode, text, { asked, isOwn: false })
}
