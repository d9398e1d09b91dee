import type { Call } from '../backend.ts'
import { ask, type Inside } from '../shell/shell.ts'

/**
 * A file that every sandbox of ours is given before anything else, and that nobody removes. Where it is not, the files that were
 * there are not there, either.
 */
const FILE = '.witness'

export async function leaveWitness(inside: Inside, call: Call): Promise<void> {
  await ask(inside, `make_base\n: >>"$base/${FILE}" || fail "there is no room for a file"\nsay left`, call)
}

export async function hasWitness(inside: Inside, call: Call): Promise<boolean> {
  const { words } = await ask(inside, `if find_base && [ -e "$base/${FILE}" ]; then say there; else say none; fi`, call)
  return words[0] === 'there'
}
