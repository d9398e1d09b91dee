import { quote } from '../../quote-word.ts'
import type { Call } from '../backend.ts'
import { piecesOf } from './argument.ts'
import { ask, type Inside } from './shell.ts'

/**
 * Brings a text of any length into a file of the folder in which agents are kept, in as many scripts as it takes. The last piece
 * is returned, as a line of the script for which it is needed: mostly it is the only one.
 */
export async function deliver(inside: Inside, file: string, text: string, call: Call): Promise<string> {
  const pieces = piecesOf(text).map(
    (piece) => `printf %s ${quote(piece)} >>"$base/${file}" || fail "there is no room for what it is to run"`,
  )
  const last = pieces.pop() as string
  for (const piece of pieces) await ask(inside, `make_base\n${piece}\nsay written`, call)
  return last
}
