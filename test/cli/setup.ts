import type { Io, Out } from '../../src/cli/io.ts'
import { run } from '../../src/cli/run.ts'
import type { World } from '../support/world.ts'

type Terminal = { columns?: number; rows?: number; hasColours?: boolean }

export type Typed = {
  env?: Record<string, string | undefined>
  /** What it prints to is a terminal. */
  terminal?: Terminal
  /** What the person there says to each question. */
  answers?: string[]
  signal?: AbortSignal
  /** Called with all that was printed so far, whenever there is more. */
  onPrint?: (printed: { out: string; err: string }) => void
}

type Printed = { code: number; out: string; err: string; bytes: Buffer; asked: string[] }

/** The command line, in this process: all but the process itself is real. */
export async function sandman(
  argv: string[],
  { env = {}, terminal, answers, signal, onPrint }: Typed = {},
): Promise<Printed> {
  const pieces: Buffer[] = []
  const asked: string[] = []
  let out = ''
  let err = ''
  const print = (take: (data: Buffer) => void): Out => ({
    isTerminal: terminal !== undefined,
    hasColours: terminal?.hasColours ?? false,
    columns: () => (terminal ? (terminal.columns ?? 120) : Number.POSITIVE_INFINITY),
    rows: () => (terminal ? (terminal.rows ?? 40) : Number.POSITIVE_INFINITY),
    async write(data) {
      take(Buffer.from(data))
      onPrint?.({ out, err })
    },
  })
  const io: Io = {
    out: print((data) => {
      pieces.push(data)
      out += data.toString()
    }),
    err: print((data) => {
      err += data.toString()
    }),
    question:
      answers &&
      (async (text) => {
        asked.push(text)
        return answers.shift() ?? ''
      }),
    environment: () => env,
    interrupts: () => signal ?? new AbortController().signal,
  }
  const code = await run(argv, io)
  return { code, out, err, bytes: Buffer.concat(pieces), asked }
}

/** Where a world's fleet is, as its environment says it. */
export function environmentOf({ place }: World): Record<string, string | undefined> {
  return { DATABASE_URL: place.databaseUrl, REDIS_URL: place.redisUrl, SANDMAN_FLEET: place.fleet }
}
