import type { Fleet } from '../../fleet/fleet.ts'
import type { OutputPiece } from '../../fleet/output.ts'
import { explain, problemBody } from '../problem.ts'
import { SIGN_OF_LIFE_MS } from '../sign-of-life.ts'
import { encode } from './answer-schema.ts'
import { ExecutionBody } from './answers.ts'
import { textPieces } from './text-pieces.ts'

export const ENCODINGS = ['text', 'base64'] as const
type Encoding = (typeof ENCODINGS)[number]

type Reading = {
  executionId: string
  from: number
  encoding: Encoding
  signal: AbortSignal
  signOfLifeMs?: number
}

/**
 * The output of an execution as server-sent events. Nothing is read before its reader wants it, so one that is slow holds a piece
 * and no more; and when the reader goes, so does whatever waits for the next piece.
 */
export function streamEvents(fleet: Fleet, reading: Reading): ReadableStream<Uint8Array> {
  const { signOfLifeMs = SIGN_OF_LIFE_MS, signal } = reading
  const leaving = new AbortController()
  const events = eventsOf(fleet, reading, AbortSignal.any([signal, leaving.signal]))
  const utf8 = new TextEncoder()
  let next: Promise<IteratorResult<string, void>> | undefined
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        next ??= events.next()
        const quiet = timer(signOfLifeMs)
        const first = await Promise.race([next, quiet.over])
        quiet.cancel()
        if (first === undefined) return controller.enqueue(utf8.encode(': still here\n\n'))
        next = undefined
        if (first.done) controller.close()
        else controller.enqueue(utf8.encode(first.value))
      },
      async cancel() {
        leaving.abort()
        await next?.catch(() => {})
        await events.return()
      },
    },
    { highWaterMark: 0 },
  )
}

async function* eventsOf(fleet: Fleet, reading: Reading, signal: AbortSignal): AsyncGenerator<string, void> {
  const { executionId, from, encoding } = reading
  try {
    const pieces = fleet.output(executionId, { from, signal })
    if (encoding === 'base64') for await (const piece of pieces) yield event(piece.to, base64(piece))
    else for await (const piece of textPieces(pieces)) yield event(piece.to, piece)
    const { execution } = await fleet.execution(executionId)
    yield `event: end\n${event('end', encode(ExecutionBody, execution))}`
  } catch (error) {
    if (signal.aborted) return // nobody reads this any more
    const explained = explain(error)
    if (!explained) throw error
    // Without an id: who comes again goes on behind what it has seen.
    yield `event: problem\ndata: ${JSON.stringify(problemBody(explained.status, explained.told))}\n\n`
  }
}

/** JSON has no line breaks in it, so all of it is one line of data. */
function event(id: number | 'end', data: unknown): string {
  return `id: ${id}\ndata: ${JSON.stringify(data)}\n\n`
}

function base64({ from, to, bytes }: OutputPiece) {
  return { from, to, base64: Buffer.from(bytes).toString('base64') }
}

function timer(ms: number): { over: Promise<undefined>; cancel(): void } {
  const { promise, resolve } = Promise.withResolvers<undefined>()
  const timeout = setTimeout(() => resolve(undefined), ms)
  return { over: promise, cancel: () => clearTimeout(timeout) }
}
