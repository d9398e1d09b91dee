import { BackendError, type Call, type Piece } from '../backend.ts'
import { badCursor, positionOf } from '../byte-cursor.ts'
import { PIECE_BYTES_MAX } from '../pieces.ts'
import { Letters } from './letters.ts'
import { compose, type Inside, newMark } from './shell.ts'

/** Whatever a login profile may say before the script begins is not more than this. */
const NOISE_BYTES_MAX = 256 * 1024

/** How the script ends: it has seen the agent's end, and has then copied the rest; or it has gone on for long enough. */
const EXIT_CODE_OVER = 0
const EXIT_CODE_SO_FAR = 10

/** In twentieths of a second. Whoever was reading may have vanished without a word, and then nobody else would end the script. */
const NAPS_MAX = 20 * 300
/** Then it is begun anew: what carries a stream may keep all of it until its end. */
const STREAM_BYTES_MAX = 8 * 1024 * 1024
const BLOCK_BYTES = 64 * 1024
const BLOCKS_AT_ONCE = 64

/**
 * The output from a byte of its file on, which the cursor names. The script copies what there is, and looks again after a pause
 * that is short while something comes. It ends when the agent has ended; and before that after five minutes, or eight megabytes:
 * then so does this.
 */
export async function* attach(
  inside: Inside,
  part: string,
  cursor: string | undefined,
  call: Call,
): AsyncGenerator<Piece> {
  call.signal.throwIfAborted()
  let at = positionOf(cursor)
  const mark = newMark()
  const letters = inside.shell.carries === 'text' ? new Letters() : undefined
  const reading = inside.shell.stream(compose(inside, mark, script(part, at, letters !== undefined)), call)
  try {
    const answer = await readAnswer(reading, mark)
    if (answer.words[0] === 'none') return
    if (answer.words[0] === 'beyond') throw badCursor(`${at}, when there are only ${answer.words[1]} bytes`)
    let read: Uint8Array = answer.rest
    for (;;) {
      call.signal.throwIfAborted()
      const bytes = letters ? letters.read(read) : read
      for (let from = 0; from < bytes.length; from += PIECE_BYTES_MAX) {
        const piece = bytes.subarray(from, from + PIECE_BYTES_MAX)
        at += piece.length
        yield { bytes: piece, cursor: String(at) }
      }
      const next = await reading.next()
      if (!next.done) {
        read = next.value
        continue
      }
      const { exitCode } = next.value
      if (exitCode === EXIT_CODE_OVER) yield { bytes: new Uint8Array(), cursor: String(at), isLast: true }
      else if (exitCode !== EXIT_CODE_SO_FAR)
        throw new BackendError('sandbox_unreachable', `What reads the output of ${part} ended with ${exitCode}`)
      return
    }
  } finally {
    await reading.return({ exitCode: EXIT_CODE_SO_FAR })
  }
}

/**
 * The file stays open, and whoever reads from it goes on where the last one was: `dd`, which reads no more than it copies. So
 * the true position is never before `$seen`, and may be behind it, when something was written in between.
 */
function script(part: string, from: number, asText: boolean): string {
  const [blocks, rest] = [Math.floor(from / BLOCK_BYTES), from % BLOCK_BYTES]
  const copy = `dd bs=${BLOCK_BYTES} count=${BLOCKS_AT_ONCE} <&3 2>/dev/null${asText ? ' | base64' : ''}`
  return `find_base
at=$base/${part}
if [ -z "$base" ] || [ ! -e "$at/runner" ]; then say none; exit; fi
size_of() { stat -c %s "$1" 2>/dev/null || wc -c <"$1"; }
size=$(size_of "$at/output")
if [ "$size" -lt ${from} ]; then say beyond $size; exit; fi
say from
exec 3<"$at/output" || exit 1
${blocks > 0 ? `dd bs=${BLOCK_BYTES} skip=${blocks} count=0 <&3 2>/dev/null || exit 1` : ':'}
${rest > 0 ? `dd bs=${rest} count=1 <&3 >/dev/null 2>&1 || exit 1` : ':'}
is_over() { [ -e "$at/end" ] || ! { is_there "$at/runner" || is_there "$at/agent"; }; }
seen=${from} pause=1 naps=0 over=
while :; do
  # In this order: what is written before its end is copied after it.
  if is_over; then over=yes; fi
  size=$(size_of "$at/output")
  if [ "$size" -gt $seen ]; then
    ${copy} || exit 1
    seen=$((seen + ${BLOCK_BYTES * BLOCKS_AT_ONCE}))
    if [ $seen -gt "$size" ]; then seen=$size; fi
    [ $((seen - ${from})) -lt ${STREAM_BYTES_MAX} ] || exit ${EXIT_CODE_SO_FAR}
    pause=1
    continue
  fi
  [ -z "$over" ] || exit ${EXIT_CODE_OVER}
  [ $naps -lt ${NAPS_MAX} ] || exit ${EXIT_CODE_SO_FAR}
  naps=$((naps + pause))
  case $pause in 1) nap 0.05; pause=2;; 2) nap 0.1; pause=4;; 4) nap 0.2; pause=10;; *) nap 0.5;; esac
done`
}

/** What the script says first, and what has come right behind it. */
async function readAnswer(reading: AsyncGenerator<Uint8Array, { exitCode: number }>, mark: string) {
  let read = Buffer.alloc(0)
  while (read.length < NOISE_BYTES_MAX) {
    const next = await reading.next()
    if (next.done) break
    read = Buffer.concat([read, next.value])
    const at = read.indexOf(`${mark} `)
    const end = at === -1 ? -1 : read.indexOf('\n', at)
    if (end === -1) continue
    const words = read.toString('utf8', at + mark.length + 1, end).split(' ')
    return { words, rest: read.subarray(end + 1) }
  }
  const said = read.toString('utf8').trim().slice(0, 400)
  throw new BackendError(
    'sandbox_unreachable',
    `The output of an agent could not be opened${said && `, and what was said is: ${said}`}`,
  )
}
