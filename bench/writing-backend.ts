import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Agent, AgentStatus, Backend, Piece } from '../src/backends/backend.ts'
import { moment } from './moment.ts'
import { noopBackend } from './noop-backend.ts'

/** What an agent writes: so many records of so many bytes, one every so often; 0 is as fast as they are read. */
export type Writing = { records: number; bytes: number; everyMs: number }

/** At the beginning of each record stands when it was written. */
const STAMP_BYTES = 24

export function commandOf({ records, bytes, everyMs }: Writing): string[] {
  return ['write', String(records), String(bytes), String(everyMs)]
}

/** When the records were written of which these bytes have the beginning, given the place of the first byte. */
export function* stampsIn(bytes: Uint8Array, from: number, recordBytes: number): Generator<number> {
  const first = (recordBytes - (from % recordBytes)) % recordBytes
  for (let at = first; at + STAMP_BYTES <= bytes.length; at += recordBytes) {
    yield Number(Buffer.from(bytes.subarray(at, at + STAMP_BYTES)).toString('latin1'))
  }
}

/** The provider that answers at once, in whose sandboxes agents write. What they write cannot be compressed. */
export function writingBackend(): Backend {
  const commands = new Map<string, readonly string[]>()
  const ended = new Set<string>()
  const status = ({ key = '' }: Agent): AgentStatus => {
    if (ended.has(key)) return { is: 'terminated', exitCode: 0, signal: null, oomKilled: false }
    return commands.has(key) ? { is: 'running' } : { is: 'none' }
  }
  async function* write({ key = '' }: Agent, cursor: string | undefined, signal: AbortSignal): AsyncGenerator<Piece> {
    const [records = 0, bytes = 0, everyMs = 0] = (commands.get(key) ?? []).slice(1).map(Number)
    const noise = randomBytes(bytes)
    // Not all in the same breath.
    if (everyMs > 0) await sleep(Math.random() * everyMs, undefined, { signal })
    for (let nth = Number(cursor ?? 0); nth < records; nth++) {
      if (everyMs > 0) await sleep(everyMs, undefined, { signal })
      const record = Buffer.from(noise)
      record.write(moment().toFixed(3).padEnd(STAMP_BYTES), 'latin1')
      yield { bytes: record, cursor: String(nth + 1) }
    }
    ended.add(key)
    yield { bytes: new Uint8Array(), cursor: String(records), isLast: true }
  }
  return {
    ...noopBackend(),
    startAgent: async (_target, { key, command }) => {
      commands.set(key, command)
    },
    stopAgent: async ({ key = '' }) => {
      ended.add(key)
    },
    agentStatus: async (agent) => status(agent),
    attach: (agent, cursor, { signal }) => write(agent, cursor, signal),
  }
}
