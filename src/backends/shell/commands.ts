import { randomUUID } from 'node:crypto'
import { quote } from '../../quote-word.ts'
import { BackendError, type Call } from '../backend.ts'
import { deliver } from './deliver.ts'
import { IDENTIFY, INSTANCE_VARIABLE, PART_VARIABLE } from './prelude.ts'
import { ask, type Inside } from './shell.ts'

/** The end of what a command has printed is what says why it failed. */
const OUTPUT_BYTES_MAX = 64 * 1024

/** How long it may take to end what was given up. Nobody waits for it. */
const GIVE_UP_MS_MAX = 15_000

/**
 * Writes down which process it is, and then looks whether it is still wanted. Whoever gives it up first says so, and then looks
 * for the process: so one of the two notices the other.
 */
const BECOME = `${IDENTIFY}
exec >"$1.log" 2>&1
identify $$
printf '%s %s\\n' $$ "$is" >"$1.process"
[ ! -e "$1.off" ] && exec sh "$1"`

/**
 * Its output goes into a file and not through a pipe: a server that it leaves in the background keeps nobody waiting, and does
 * not die of a reader that is gone.
 */
export async function runCommand(inside: Inside, command: string, call: Call) {
  if (command.includes('\0'))
    throw new BackendError('spec_invalid', `${JSON.stringify(command)} is no command: it has a NUL`)
  const file = `.command-${randomUUID()}`
  const last = await deliver(inside, file, `${command}\n`, call)
  const giveUp = () => void end(inside, file)
  call.signal.addEventListener('abort', giveUp)
  try {
    const { words, rest } = await ask(
      inside,
      `make_base
${last}
file=$base/${file}
${INSTANCE_VARIABLE}=$base ${PART_VARIABLE}=command setsid sh -c ${quote(BECOME)} become "$file" </dev/null
say exited $?
tail -c ${OUTPUT_BYTES_MAX} "$file.log"
rm -f "$file" "$file".*`,
      call,
    )
    return { exitCode: Number(words[1]), output: rest }
  } finally {
    call.signal.removeEventListener('abort', giveUp)
  }
}

/** As well as it goes, and what is left of it is ended with all that lingers. */
async function end(inside: Inside, file: string): Promise<void> {
  const call = { signal: AbortSignal.timeout(GIVE_UP_MS_MAX) }
  await ask(
    inside,
    `find_base || { say none; exit; }
file=$base/${file}
: >"$file.off"
if is_there "$file.process"; then kill -s KILL -- -$pid; fi
rm -f "$file.log"
say ended`,
    call,
  ).catch(() => {})
}
