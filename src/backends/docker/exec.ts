import { BackendError, type Call } from '../backend.ts'
import { EndMark, readAll, WITH_END_MARK } from '../shell/end-mark.ts'
import type { Shell } from '../shell/shell.ts'
import { type Container, Moved } from './containers.ts'
import { isAbsent, says } from './errors.ts'
import { FrameReader } from './log-lines.ts'
import type { Site } from './site.ts'

/** Scripts in a container, as long as it is called what it was: that is, in the incarnation that was meant. */
export function shellIn(site: Site, { fullName }: Container): Shell {
  async function* stream(script: string, call: Call): AsyncGenerator<Uint8Array, { exitCode: number }> {
    const mark = new EndMark()
    const id = await makeExec(site, fullName, ['sh', '-c', WITH_END_MARK, 'sh', script, mark.word], call)
    const body = { Detach: false, Tty: false }
    const response = await site.engine
      .stream({ method: 'POST', path: `/exec/${id}/start`, body }, call)
      .catch((error: unknown) => refused(fullName, error))
    const frames = new FrameReader()
    try {
      for await (const piece of response as AsyncIterable<Buffer>)
        for (const { bytes } of frames.read(piece)) {
          const { shown, exitCode } = mark.read(bytes)
          if (shown.length > 0) yield shown
          if (exitCode !== undefined) return { exitCode }
        }
    } finally {
      response.destroy()
    }
    throw new BackendError(
      'sandbox_unreachable',
      `A script in ${fullName} did not come to its end${mark.said && `, and the last that was heard is: ${mark.said}`}`,
    )
  }
  return { stream, run: (script, call) => readAll(stream(script, call)) }
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
