import { randomUUID } from 'node:crypto'
import { BackendError, type Call } from '../backend.ts'
import type { Shell } from '../shell/shell.ts'
import { type Container, Moved } from './containers.ts'
import { isAbsent, says } from './errors.ts'
import { FrameReader } from './log-lines.ts'
import type { Site } from './site.ts'

/**
 * Runs a script, and says at its end that this was all: a connection that is cut in the middle ends like one that has come to its
 * end, and the engine knows how a script ended but not who has heard it.
 */
const WRAPPED = `sh -c "$1" 2>&1 </dev/null; printf '%s%s\\n' "$2" $?`

const SAID_CHARS = 400

/** Scripts in a container, as long as it is called what it was: that is, in the incarnation that was meant. */
export function shellIn(site: Site, { fullName }: Container): Shell {
  async function* stream(script: string, call: Call): AsyncGenerator<Uint8Array, { exitCode: number }> {
    // A byte that no text begins with, so that of what is said nothing has to be held back.
    const mark = Buffer.from(`\x01${randomUUID()} `)
    const id = await makeExec(site, fullName, ['sh', '-c', WRAPPED, 'sh', script, mark.toString()], call)
    const body = { Detach: false, Tty: false }
    const response = await site.engine
      .stream({ method: 'POST', path: `/exec/${id}/start`, body }, call)
      .catch((error: unknown) => refused(fullName, error))
    const frames = new FrameReader()
    let held: Buffer = Buffer.alloc(0)
    let said = ''
    try {
      for await (const piece of response as AsyncIterable<Buffer>)
        for (const { bytes } of frames.read(piece)) {
          const { shown, rest } = splitAt(mark, Buffer.concat([held, bytes]))
          held = rest
          if (shown.length > 0) yield shown
          said = (said + shown.toString('utf8', Math.max(0, shown.length - SAID_CHARS))).slice(-SAID_CHARS)
          const end = held.indexOf('\n')
          if (end !== -1 && held.indexOf(mark) === 0)
            return { exitCode: Number(held.toString('utf8', mark.length, end)) }
        }
    } finally {
      response.destroy()
    }
    throw new BackendError(
      'sandbox_unreachable',
      `A script in ${fullName} did not come to its end${said && `, and the last that was heard is: ${said.trim()}`}`,
    )
  }
  return {
    stream,
    async run(script, call) {
      const pieces: Uint8Array[] = []
      const reading = stream(script, call)
      for (;;) {
        const next = await reading.next()
        if (next.done) return { ...next.value, output: Buffer.concat(pieces).toString() }
        pieces.push(next.value)
      }
    },
  }
}

async function makeExec({ engine }: Site, name: string, command: string[], call: Call): Promise<string> {
  const path = `/containers/${name}/exec`
  const body = { Cmd: command, AttachStdout: true, AttachStderr: true }
  const { Id } = await engine
    .json<{ Id: string }>({ method: 'POST', path, body }, call)
    .catch((error: unknown) => refused(name, error))
  return Id
}

function refused(name: string, error: unknown): never {
  const isMoved = isAbsent(error, 'container', name) || says(error, 409, /is paused|is not running|is restarting/i)
  throw isMoved ? new Moved(name, error) : error
}

/** What may be shown, and what may be the beginning of the mark, or is the mark and what is behind it. */
function splitAt(mark: Buffer, bytes: Buffer): { shown: Buffer; rest: Buffer } {
  let at = bytes.indexOf(mark)
  if (at === -1) {
    const first = bytes.indexOf(mark.subarray(0, 1), Math.max(0, bytes.length - mark.length))
    at = first !== -1 && mark.subarray(0, bytes.length - first).equals(bytes.subarray(first)) ? first : bytes.length
  }
  return { shown: bytes.subarray(0, at), rest: bytes.subarray(at) }
}
