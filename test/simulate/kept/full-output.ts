/** Reads an output that is full while more of it comes, and says so when it is done. */
import { setTimeout } from 'node:timers/promises'
import type { Agent, Backend } from '../../../src/backends/backend.ts'
import { readStream } from '../../../src/jobs/stream.ts'
import type { StreamWork } from '../../../src/jobs/stream-work.ts'

const written = Promise.withResolvers<void>()

async function* attach() {
  yield { bytes: new Uint8Array(20), cursor: '20' }
  await written.promise // what was cut off has been written before the next piece comes
  yield { bytes: new Uint8Array(64 * 1024), cursor: '65556' }
}

/** Not at once: the reader has asked for the next piece by then. */
async function append(): Promise<boolean> {
  await setTimeout(20)
  return true
}

const work = {
  backend: { attach } as unknown as Backend,
  signal: new AbortController().signal,
  provider: { patience: { staleMs: 60_000 } },
  execution: { id: 'exe', fence: 1, output_bytes_max: 10 },
  deps: { scribe: { append }, announce: () => setImmediate(written.resolve) },
} as unknown as StreamWork

const position = { cursor: undefined, bytes: 0, truncated: false }
const { wasInterrupted } = await readStream(work, {} as Agent, position, {
  interruption: new AbortController().signal,
  see: async () => ({ is: 'running' }),
  quietMs: 60_000,
})
process.stdout.write(JSON.stringify({ wasInterrupted, truncated: position.truncated }))
