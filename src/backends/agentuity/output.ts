import { unlessGivenUp } from '../answer.ts'
import type { Call } from '../backend.ts'
import { Refusal, Unanswered } from './errors.ts'

/**
 * What a script prints, as it is printed, up to the mark behind which it says how it ended. Returns that, or undefined where the
 * stream has come to its end without it: then this was not all.
 */
export async function* readOutput(
  url: string,
  mark: string,
  call: Call,
): AsyncGenerator<Uint8Array, { exitCode: number } | undefined> {
  const abort = new AbortController()
  const signal = AbortSignal.any([call.signal, abort.signal])
  const last = Buffer.from(`${mark} `)
  let held: Uint8Array = Buffer.alloc(0)
  try {
    const reader = await open(url, signal, call)
    for (;;) {
      const { done, value } = await unlessGivenUp(reader.read(), call).catch((error: unknown) => {
        throw new Unanswered(error)
      })
      if (done) return undefined
      const read = Buffer.concat([held, value])
      const at = read.indexOf(last)
      if (at !== -1) {
        if (at > 0) yield read.subarray(0, at)
        held = read.subarray(at)
        const said = held.subarray(last.length).toString().split('\n')
        if (said.length > 1) return { exitCode: Number(said[0]) }
        continue
      }
      const keep = beginningOf(last, read)
      held = read.subarray(read.length - keep)
      if (read.length > keep) yield read.subarray(0, read.length - keep)
    }
  } finally {
    abort.abort() // whoever has heard enough leaves
  }
}

/** As the SDK opens it: its address is all that is needed. */
async function open(url: string, signal: AbortSignal, call: Call): Promise<ReadableStreamDefaultReader<Uint8Array>> {
  const asked = fetch(url, { signal })
  const response = await unlessGivenUp(asked, call).catch((error: unknown) => {
    throw new Unanswered(error)
  })
  if (!response.ok || !response.body)
    throw new Refusal(response.status, `the stream of an output is not given (HTTP ${response.status})`)
  return response.body.getReader()
}

/** How many bytes at the end of what was read may be the beginning of the mark. */
function beginningOf(mark: Buffer, read: Buffer): number {
  for (let length = Math.min(mark.length - 1, read.length); length > 0; length--)
    if (read.subarray(read.length - length).equals(mark.subarray(0, length))) return length
  return 0
}
