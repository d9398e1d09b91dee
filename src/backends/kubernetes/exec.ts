import { unlessGivenUp } from '../answer.ts'
import { BackendError, type BackendErrorType, type Call } from '../backend.ts'
import { EndMark, readAll, WITH_END_MARK } from '../shell/end-mark.ts'
import type { Shell } from '../shell/shell.ts'
import type { Cluster, Socket, Sockets } from './cluster.ts'
import { incarnationOf, type Pod } from './pod.ts'

/**
 * Takes the script from its input, because a path that contains it would be too long for whatever is on the way. Arguments: its
 * length in bytes, and the mark.
 */
const FROM_INPUT = `script=$(head -c "$1"); set -- "$script" "$2"; ${WITH_END_MARK}`

/** The channels of such a connection: the first byte of everything that is sent names one. */
const CHANNEL = { input: 0, output: 1, errors: 2, status: 3 } as const

/** So much may have come that nobody has read; then nothing more is taken from the connection until somebody has. */
const UNREAD_BYTES_MAX = 1024 * 1024
/** A connection whose other end does not answer for so long is dead. */
const PING_MS = 15_000
const SILENT_PINGS_MAX = 3

/** Scripts in the agent's container of a pod; `find` tells which pod has its name now. */
export function shellIn(
  { home, sockets }: Cluster,
  pod: Pod,
  find: (name: string, call: Call) => Promise<Pod | undefined>,
): Shell {
  const where = `${home.namespace}/${pod.name}`

  async function* stream(script: string, call: Call): AsyncGenerator<Uint8Array, { exitCode: number }> {
    const mark = new EndMark()
    const bytes = Buffer.from(script)
    const command = ['sh', '-c', FROM_INPUT, 'sh', String(bytes.length), mark.word]
    const query = new URLSearchParams([
      ...command.map((word): [string, string] => ['command', word]),
      ['container', pod.agent.name],
      ...['stdin', 'stdout', 'stderr'].map((name): [string, string] => [name, 'true']),
    ])
    const path = `/api/v1/namespaces/${home.namespace}/pods/${pod.name}/exec?${query}`
    const connection = await Connection.open(sockets, path, call)
    try {
      // A pod is entered by its name, which the next one may have. If it is still the one that is meant, it was so when it was
      // entered; and no script was sent yet.
      const now = await find(pod.name, call)
      if (!now || incarnationOf(now) !== incarnationOf(pod))
        throw new NotEntered({ message: `${where} is another one` })
      connection.send(CHANNEL.input, bytes)
      for await (const piece of connection.pieces()) {
        const { shown, exitCode } = mark.read(piece)
        if (shown.length > 0) yield shown
        if (exitCode !== undefined) return { exitCode }
      }
      call.signal.throwIfAborted()
      throw new BackendError(
        'sandbox_unreachable',
        `A script in ${where} did not come to its end${connection.failure}${mark.said && `; the last that was heard is: ${mark.said}`}`,
      )
    } finally {
      connection.close()
    }
  }
  return { stream, run: (script, call) => readAll(stream(script, call)) }
}

/** A connection to a command in a container, of which no more is taken than is read. */
class Connection {
  readonly #call: Call
  readonly #ending = new AbortController()
  #socket: Socket | undefined
  #unread: Buffer[] = []
  #unreadBytes = 0
  #isOver = false
  #why = ''
  #wake = Promise.withResolvers<void>()
  #pings: NodeJS.Timeout | undefined
  #unanswered = 0
  readonly #giveUp = () => this.close()

  private constructor(call: Call) {
    this.#call = call
  }

  static async open(sockets: Sockets, path: string, call: Call): Promise<Connection> {
    const connection = new Connection(call)
    call.signal.addEventListener('abort', connection.#giveUp)
    try {
      await connection.#connect(sockets, path)
      return connection
    } catch (error) {
      connection.close()
      throw error
    }
  }

  /** What the other end says of why it did not come to its end, as a clause. */
  get failure(): string {
    return this.#why && `: ${this.#why}`
  }

  send(channel: number, bytes: Buffer): void {
    this.#socket?.send(Buffer.concat([Buffer.from([channel]), bytes]))
  }

  /** What the command writes, until the connection ends. */
  async *pieces(): AsyncGenerator<Buffer> {
    for (;;) {
      const piece = this.#unread.shift()
      if (piece) {
        this.#unreadBytes -= piece.length
        if (this.#unreadBytes < UNREAD_BYTES_MAX / 2) this.#socket?.resume()
        yield piece
      } else if (this.#isOver) return
      else {
        await this.#wake.promise
        this.#wake = Promise.withResolvers()
      }
    }
  }

  close(): void {
    this.#call.signal.removeEventListener('abort', this.#giveUp)
    clearInterval(this.#pings)
    this.#end()
    this.#socket?.terminate()
    this.#ending.abort()
  }

  async #connect(sockets: Sockets, path: string): Promise<void> {
    const opening = sockets.connect(path, this.#ending.signal)
    // Who has given up does not wait for it, and whatever is opened after that is closed again.
    opening.then(
      (late) => this.#isOver && late.terminate(),
      () => {},
    )
    this.#socket = await unlessGivenUp(opening, this.#call).catch((error: unknown) => {
      this.#call.signal.throwIfAborted()
      throw new NotEntered(error)
    })
    // In place of what the SDK does with it: that would end this process's own output when it is told to close one.
    this.#socket.onmessage = ({ data }) => this.#take(data)
    this.#socket.on('close', () => this.#end())
    this.#socket.on('pong', () => {
      this.#unanswered = 0
    })
    this.#pings = setInterval(() => this.#ping(), PING_MS)
  }

  #take(message: Buffer | string): void {
    this.#unanswered = 0 // whoever speaks is there
    if (typeof message === 'string' || message.length < 2) return
    const channel = message[0]
    const bytes = message.subarray(1)
    if (channel === CHANNEL.output) {
      this.#unread.push(bytes)
      this.#unreadBytes += bytes.length
      if (this.#unreadBytes > UNREAD_BYTES_MAX) this.#socket?.pause()
      this.#wake.resolve()
    } else if (channel === CHANNEL.status || channel === CHANNEL.errors) this.#why ||= bytes.toString().slice(0, 400)
    if (channel === CHANNEL.status) this.#socket?.close()
  }

  /** A node that is gone says nothing, and a connection through it stays open. */
  #ping(): void {
    if (this.#unanswered >= SILENT_PINGS_MAX) {
      this.#why ||= 'its other end does not answer'
      this.#socket?.terminate()
    } else if (!this.#socket?.isPaused) {
      this.#unanswered++
      this.#socket?.ping()
    }
  }

  #end(): void {
    this.#isOver = true
    this.#wake.resolve()
  }
}

/** In the words of the WebSocket, of which the SDK tells nothing else. */
const REFUSED = /Unexpected server response: (\d+)/
const TYPES: Record<string, BackendErrorType> = {
  401: 'provider_unauthorized',
  403: 'provider_unauthorized',
  429: 'rate_limited',
}

/** The API server does not let us in, which may be because of the container: that has to be asked for. */
export class NotEntered extends BackendError {
  constructor(error: unknown) {
    // What the SDK rejects with is an event of the WebSocket, and no error.
    const { message = 'the connection was refused' } = (error ?? {}) as { message?: string }
    const type = TYPES[REFUSED.exec(message)?.[1] ?? ''] ?? 'sandbox_unreachable'
    super(type, `Kubernetes lets no script into the container: ${message}`, { cause: error })
  }
}
