import { html } from 'hono/html'
import type { Fleet } from '../../fleet/fleet.ts'
import type { Execution } from '../../fleet/views.ts'
import { size as sizeOf } from '../../fleet/words.ts'
import { allReadable, readable } from './terminal.ts'
import type { Html, View } from './view.ts'

/** What a page shows of an output: its end. All of it can be downloaded. */
export const TAIL_BYTES = 65_536
/** On the page of a sandbox, beside all else. */
export const SHORT_TAIL_BYTES = 8_192
const READ_MS = 5_000

/** The end of an output, as text that means nothing but itself; and up to which byte it goes. */
export type Tail = { text: string; from: number; to: number }

export async function readTail(fleet: Fleet, execution: Execution, max: number): Promise<Tail> {
  const end = execution.outputBytes
  const start = Math.max(0, end - max)
  const chunks: Uint8Array[] = []
  let from = start
  let to = start
  if (end > 0) {
    for await (const piece of fleet.output(execution.id, { from: start, signal: AbortSignal.timeout(READ_MS) })) {
      if (chunks.length === 0) from = piece.from
      chunks.push(piece.bytes)
      to = piece.to
      if (to >= end) break // what is printed from now on is told by the stream
    }
  }
  const all = Buffer.concat(chunks)
  const skipped = start > 0 ? firstLine(all) : 0
  const shownBytes = all.subarray(skipped)
  if (execution.endedAt !== null) return { text: allReadable(shownBytes), from: from + skipped, to }
  const { text, length } = readable(shownBytes)
  return { text, from: from + skipped, to: from + skipped + length }
}

/** What begins in the middle begins with the next line, if that is near; never inside of a character. */
function firstLine(all: Buffer): number {
  const at = all.subarray(0, 4_096).indexOf(0x0a)
  if (at !== -1) return at + 1
  return Math.max(
    0,
    all.subarray(0, 4).findIndex((byte) => (byte & 0xc0) !== 0x80),
  )
}

/** Text, and only text, in a box that can be scrolled; `console.js` adds to it what the stream tells. */
export function outputBox(view: View, execution: Execution, tail: Tail, size = ''): Html {
  const { id, outputBytes, endedAt, truncated } = execution
  const all = html`<a href="${view.at(`/executions/${id}/output.txt`)}" download>Download all (${sizeOf(outputBytes)})</a>`
  const empty = endedAt === null ? 'Nothing printed yet.' : 'It printed nothing.'
  return html`
    ${tail.from > 0 && html`<p class="none small">Only the end is shown. ${all}</p>`}
    ${outputBytes === 0 && html`<p class="none">${empty}</p>`}
    ${truncated && html`<p class="none small">It printed more than may be kept.</p>`}
    <pre class="output ${size}" id="output-${id}" data-to="${tail.to}" tabindex="0" role="region" aria-label="Output of ${id}">${tail.text}</pre>`
}
