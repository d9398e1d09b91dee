import readline from 'node:readline/promises'
import type { WriteStream } from 'node:tty'
import { SAME_PRESS_MS } from '../fleet/shutdown.ts'
import { exit } from './exits.ts'
import { type Io, type Out, wantsColours } from './io.ts'

type Env = Record<string, string | undefined>

/** A terminal that does not say how large it is. */
const COLUMNS = 80
const ROWS = 24

/** The world of a real process. */
export function processIo(env: Env, environment: () => Env): Io {
  const { stdin, stdout, stderr } = process
  let interrupted: AbortSignal | undefined
  return {
    out: outOf(stdout, env),
    err: outOf(stderr, env),
    question: stdin.isTTY && stderr.isTTY ? question : undefined,
    environment,
    interrupts: () => (interrupted ??= listen()),
  }
}

function outOf(stream: WriteStream, env: Env): Out {
  // Whoever reads has seen enough, as in `sandman ls | head`: nothing is wrong, and nobody is left to tell.
  stream.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(exit('done'))
    throw error
  })
  return {
    write: (data) => new Promise((resolve) => stream.write(data, () => resolve())),
    isTerminal: stream.isTTY === true,
    hasColours: wantsColours(stream.isTTY === true, env),
    columns: () => (stream.isTTY ? stream.columns || COLUMNS : Number.POSITIVE_INFINITY),
    rows: () => (stream.isTTY ? stream.rows || ROWS : Number.POSITIVE_INFINITY),
  }
}

async function question(text: string, signal: AbortSignal): Promise<string> {
  // The terminal itself edits the line, and Ctrl-C stays a signal.
  const asking = readline.createInterface({ input: process.stdin, output: process.stderr, terminal: false })
  try {
    const closed = new Promise<string>((resolve) => asking.once('close', () => resolve('')))
    return await Promise.race([asking.question(text, { signal }), closed])
  } finally {
    asking.close()
  }
}

function listen(): AbortSignal {
  const controller = new AbortController()
  let firstMs: number | undefined
  const onSignal = () => {
    if (firstMs === undefined) {
      firstMs = performance.now()
      controller.abort()
    } else if (performance.now() - firstMs > SAME_PRESS_MS) process.exit(exit('interrupted'))
  }
  process.on('SIGINT', onSignal)
  process.on('SIGTERM', onSignal)
  return controller.signal
}
