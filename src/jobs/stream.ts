import type { Agent, Piece } from '../backends/backend.ts'
import { isStorable } from '../backends/spec.ts'
import type { AgentSeen } from '../sandbox/stream-end.ts'
import type { StreamWork } from './stream-work.ts'

/** Where the output that is kept ends: how many bytes that are, and what the backend calls the place. Moved by what is kept. */
export type StreamPosition = { cursor: string | undefined; bytes: number; truncated: boolean }

export type StreamResult = {
  brought: number
  heldMs: number
  /** It was ended from here. */
  wasInterrupted: boolean
  /** All there is was read. */
  isComplete: boolean
  error: unknown
}

/** Of one execution, as much waits to be written as this, and as much again is being written. Then nothing more is read. */
const BUFFER_BYTES = 64 * 1024

export function truncationMark(bytesMax: number): string {
  return `\n[sandman: the output of this execution is limited to ${bytesMax} bytes, and ends here]\n`
}

/** Somebody else follows the execution, or it has ended: whatever is read further is not kept. */
export class NotKept extends Error {
  constructor() {
    super('the output was not kept where it was to be: it is read again from what is')
  }
}

/**
 * Reads an agent's output from a position on, and keeps it, until it ends or is cut. Whatever was read and not kept is read
 * again by whoever comes next.
 */
export async function readStream(
  work: StreamWork,
  agent: Agent,
  position: StreamPosition,
  { interruption, see, quietMs }: { interruption: AbortSignal; see: () => Promise<AgentSeen>; quietMs: number },
): Promise<StreamResult> {
  const { backend, signal } = work
  const beganAt = performance.now()
  const beganWith = position.bytes
  const cut = new AbortController()
  const stopped = AbortSignal.any([signal, interruption, cut.signal])
  const quiet = watchSilence(work, { see, quietMs, cut: () => cut.abort() })
  const keeper = new Keeper(work, position, () => cut.abort())
  let error: unknown
  let isComplete = false
  try {
    const pieces = backend.attach(agent, position.cursor, { signal: stopped })
    for await (const piece of untilAborted(pieces, stopped)) {
      quiet.spoke()
      await keeper.keep(piece)
      isComplete = piece.isLast === true
      if (keeper.isFull || isComplete) break
    }
  } catch (thrown) {
    error = thrown
  } finally {
    quiet.stop()
  }
  await keeper.flush() // fails when the database does: nothing can be decided without it
  return {
    brought: position.bytes - beganWith,
    heldMs: performance.now() - beganAt,
    wasInterrupted: stopped.aborted || keeper.isFull,
    isComplete,
    error: stopped.aborted ? undefined : error,
  }
}

/** Gathers pieces while the ones before them are written. */
class Keeper {
  readonly #work: StreamWork
  readonly #position: StreamPosition
  #waiting: Piece[] = []
  #waitingBytes = 0
  #writing: Promise<void> | undefined
  #failure: unknown

  readonly #onFailure: () => void

  /** A failure is told at once: who waits for the next piece would hear of it only when there is one. */
  constructor(work: StreamWork, position: StreamPosition, onFailure: () => void) {
    this.#work = work
    this.#position = position
    this.#onFailure = onFailure
  }

  get isFull(): boolean {
    return this.#position.truncated
  }

  async keep(piece: Piece): Promise<void> {
    // Once it is full, nothing is written, so waiting for room would never end.
    if (piece.bytes.length === 0 || this.isFull) return
    // In the statement that it shares with others it would fail all of them.
    if (!isStorable(piece.cursor)) throw new Error('the backend gave a cursor that cannot be kept')
    this.#waiting.push(piece)
    this.#waitingBytes += piece.bytes.length
    this.#writing ??= this.#write()
    while (this.#waitingBytes >= BUFFER_BYTES && this.#writing) await this.#writing
    if (this.#failure) throw this.#failure
  }

  async flush(): Promise<void> {
    await this.#writing
    if (this.#failure) throw this.#failure
  }

  async #write(): Promise<void> {
    try {
      while (this.#waiting.length > 0 && !this.isFull) await this.#writeOnce()
    } catch (error) {
      this.#failure = error
      this.#waiting = []
      this.#waitingBytes = 0
      this.#onFailure()
    } finally {
      this.#writing = undefined
    }
  }

  async #writeOnce(): Promise<void> {
    const { deps, execution } = this.#work
    const { id, fence, output_bytes_max: bytesMax } = execution
    const pieces = this.#waiting
    this.#waiting = []
    this.#waitingBytes = 0
    const all = pieces.length === 1 ? (pieces[0] as Piece).bytes : Buffer.concat(pieces.map(({ bytes }) => bytes))
    const from = this.#position.bytes
    const truncated = from + all.length > bytesMax
    const bytes = truncated
      ? Buffer.concat([all.subarray(0, bytesMax - from), Buffer.from(truncationMark(bytesMax))])
      : all
    const { cursor } = pieces.at(-1) as Piece
    if (!(await deps.scribe.append({ id, fence, from, bytes, cursor, truncated }))) throw new NotKept()
    Object.assign(this.#position, { bytes: from + bytes.length, cursor, truncated })
    deps.announce([id])
  }
}

/**
 * A stream that hangs tells nothing, so an agent that is silent is asked for its status: if it has ended, the stream is cut. If
 * it lives, the stream is cut all the same after a while, because the connection may be dead.
 */
function watchSilence(
  { provider }: StreamWork,
  { see, quietMs, cut }: { see: () => Promise<AgentSeen>; quietMs: number; cut: () => void },
) {
  const { staleMs } = provider.patience
  let silentSince = performance.now()
  let isStopped = false
  let timer: NodeJS.Timeout | undefined
  const arm = (ms: number) => {
    if (!isStopped) timer = setTimeout(() => void look(), ms)
  }
  const look = async () => {
    const silentMs = performance.now() - silentSince
    if (silentMs < quietMs) return arm(quietMs - silentMs)
    const seen = await see().catch(() => undefined)
    const livesOn = seen === undefined || seen.is === 'running' || seen.is === 'unknown'
    if (!livesOn || silentMs >= staleMs) return cut()
    arm(quietMs)
  }
  arm(quietMs)
  return {
    spoke() {
      silentSince = performance.now()
    },
    stop() {
      isStopped = true
      clearTimeout(timer)
    },
  }
}

/**
 * A stream that does not listen to its signal is not waited for. Each step has a promise of its own: what is raced against one
 * that lasts as long as the stream would be remembered by it for as long.
 */
async function* untilAborted<T>(source: AsyncIterable<T>, signal: AbortSignal): AsyncGenerator<T> {
  const iterator = source[Symbol.asyncIterator]()
  let giveUp: ((reason: unknown) => void) | undefined
  const onAbort = () => giveUp?.(signal.reason)
  signal.addEventListener('abort', onAbort)
  try {
    for (;;) {
      signal.throwIfAborted()
      const { done, value } = await new Promise<IteratorResult<T>>((resolve, reject) => {
        giveUp = reject
        iterator.next().then(resolve, reject)
      })
      if (done) return
      yield value
    }
  } finally {
    signal.removeEventListener('abort', onAbort)
    void iterator.return?.().catch(() => {})
  }
}
