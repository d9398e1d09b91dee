import { unlessGivenUp } from '../answer.ts'
import type { Call } from '../backend.ts'
import { EndMark } from '../shell/end-mark.ts'
import { Refusal, Unanswered } from './errors.ts'

/**
 * What a script prints, as it is printed, up to the mark behind which it says how it ended. Returns that, or undefined where the
 * stream has come to its end without it: then this was not all.
 */
export async function* readOutput(
  url: string,
  word: string,
  call: Call,
): AsyncGenerator<Uint8Array, { exitCode: number } | undefined> {
  const abort = new AbortController()
  const signal = AbortSignal.any([call.signal, abort.signal])
  const mark = new EndMark(word)
  try {
    const reader = await open(url, signal, call)
    for (;;) {
      const { done, value } = await unlessGivenUp(reader.read(), call).catch((error: unknown) => {
        throw new Unanswered(error)
      })
      if (done) return undefined
      const { shown, exitCode } = mark.read(Buffer.from(value))
      if (shown.length > 0) yield shown
      if (exitCode !== undefined) return { exitCode }
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
