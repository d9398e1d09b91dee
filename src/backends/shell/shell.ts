import { randomUUID } from 'node:crypto'
import { BackendError, type Call } from '../backend.ts'
import { prelude } from './prelude.ts'

/**
 * All that is needed of a provider to have agents: it runs a POSIX shell script inside an instance. The script needs `sh`, `/proc`,
 * `awk`, `setsid` and the usual small tools, of GNU, of busybox or of anybody else. It is never longer than 40,000 bytes, nor than
 * 120,000 when it is put between quotes.
 */
export type Shell = {
  /** Text where nothing but characters gets through: then outputs are sent in letters. Defaults to bytes. */
  readonly carries?: 'bytes' | 'text'
  /** Runs a script to its end. The output is what it wrote to stdout; whether stderr is among it makes no difference. */
  run(script: string, call: Call): Promise<{ exitCode: number; output: string }>
  /**
   * The same, and its stdout as it is written, not read ahead of who reads it. Returns when the script has ended and all of it was
   * read, and throws when the connection broke before that. Who stops reading is not waited for.
   */
  stream(script: string, call: Call): AsyncGenerator<Uint8Array, { exitCode: number }>
}

/** An instance to run scripts in, and the name under which its agents are kept there: one that another life never has. */
export type Inside = { shell: Shell; root: string }

type Answer = {
  /** What the script says of itself: a word, and what belongs to it. */
  words: string[]
  /** Everything that it wrote after that line. */
  rest: string
}

/** What a script says when there was no room left, in anybody's words. */
const FULL = /No space left on device|Disk quota exceeded/i

const SHOWN_CHARS = 400

/** Runs a script inside, and returns what it answers. Login profiles may say something before that, which nobody has asked for. */
export async function ask(inside: Inside, script: string, call: Call): Promise<Answer> {
  call.signal.throwIfAborted()
  const mark = newMark()
  const { exitCode, output } = await inside.shell.run(compose(inside, mark, script), call)
  const at = output.indexOf(`${mark} `)
  const [line = ''] = at === -1 ? [] : output.slice(at + mark.length + 1).split('\n', 1)
  const words = line.split(' ')
  if (at !== -1 && words[0] !== 'failed') return { words, rest: output.slice(at + mark.length + 1 + line.length + 1) }
  const said = output.replace(mark, '').trim().slice(-SHOWN_CHARS)
  throw new BackendError(
    FULL.test(said) ? 'quota_exceeded' : 'sandbox_unreachable',
    at === -1
      ? `A script in the sandbox ended with ${exitCode} before it could answer${said && `, and said: ${said}`}`
      : `A script in the sandbox could not do its work: ${said}`,
  )
}

/** No output can contain it before it has been said. */
export function newMark(): string {
  return `#${randomUUID()}#`
}

export function compose({ root }: Inside, mark: string, script: string): string {
  return `${prelude({ mark, root })}\n${script}`
}
