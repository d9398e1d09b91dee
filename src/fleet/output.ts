import type { Db } from '../db/pool.ts'
import { readOutput } from '../db/streams.ts'
import type { WaitingRoom } from './waiting-room.ts'

/** A piece of an execution's output: the bytes from one place on up to another. */
export type OutputPiece = { from: number; to: number; bytes: Uint8Array }

/** Pieces that are read in one go, which bounds what a slow reader holds: each is about a buffer of `jobs/stream.ts` at most. */
const PIECES_AT_ONCE = 8

/**
 * Everything that an execution has printed from a byte on, and then what it prints, until it ends. While nothing is printed a
 * reader costs nothing of its own: all of them wait in one room.
 */
export async function* streamOutput(
  { db, room }: { db: Db; room: WaitingRoom },
  { executionId, from, signal }: { executionId: string; from: number; signal?: AbortSignal | undefined },
): AsyncGenerator<OutputPiece, void> {
  let at = from
  for (;;) {
    const found = await room.execution(executionId, hasMoreThan(at), { withinMs: Number.POSITIVE_INFINITY, signal })
    if (!found) return // it has all the time there is
    const isOver = found.execution.ended_at !== null
    const end = found.execution.output_bytes
    while (at < end) {
      const before = at
      for (const { from_byte, bytes } of await readOutput(db, { executionId, from: at, max: PIECES_AT_ONCE })) {
        signal?.throwIfAborted()
        // What was pruned is left out, which `from` shows.
        const rest = bytes.subarray(Math.max(0, at - from_byte))
        if (rest.length === 0) continue
        const start = Math.max(at, from_byte)
        at = start + rest.length
        yield { from: start, to: at, bytes: rest }
      }
      if (at === before) break // all that is left of it was pruned
    }
    if (isOver) return
  }
}

function hasMoreThan(at: number) {
  return ({ execution }: { execution: { output_bytes: number; ended_at: Date | null } }) =>
    execution.output_bytes > at || execution.ended_at !== null
}

/** A generator that can be left while it waits: its own `return` would wait with it for a next piece that may never come. */
export function leavable<T>(generate: (left: AbortSignal) => AsyncGenerator<T, void>): AsyncIterable<T> {
  return {
    [Symbol.asyncIterator]() {
      const leaving = new AbortController()
      const generator = generate(leaving.signal)
      const done = { done: true, value: undefined } as const
      return {
        next: () =>
          generator.next().catch((error: unknown) => {
            if (leaving.signal.aborted) return done
            throw error
          }),
        async return() {
          leaving.abort()
          await generator.return().catch(() => {})
          return done
        },
      }
    },
  }
}
