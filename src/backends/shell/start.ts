import { randomUUID } from 'node:crypto'
import { quote } from '../../quote-word.ts'
import { BackendError, type Call } from '../backend.ts'
import { ARGUMENT_BYTES_MAX } from './argument.ts'
import { deliver } from './deliver.ts'
import { IDENTIFY, INSTANCE_VARIABLE, PART_VARIABLE } from './prelude.ts'
import { ask, type Inside } from './shell.ts'

export type AskedAgent = { part: string; command: readonly string[]; env?: Record<string, string> | undefined }

/**
 * Becomes the command, in a session of its own, once it has been written down which process it is. Arguments: the agent's folder,
 * and the file with its command. It opens the output itself, and not the shell above it: some shells write into theirs that a
 * child was killed.
 */
const BECOME = `${IDENTIFY}
exec >>"$1/output" 2>&1
identify $$
printf '%s %s\\n' $$ "$is" >"$2.agent" && mv "$2.agent" "$1/agent"
. "$2"
exec "$@"`

/**
 * Starts the command, waits for it, and writes down how it ended. Of several runners for the same agent only the first does: only
 * one can make the link, and what it leads to is complete. It ignores being asked to end, and what it starts does not inherit
 * that.
 */
const RUN = `${IDENTIFY}
trap : HUP INT TERM
at=$1 wanted=$2
identify $$ && printf '%s %s\\n' $$ "$is" >"$wanted.runner" && ln "$wanted.runner" "$at/runner"
won=$?
rm -f "$wanted.runner"
if [ $won -ne 0 ]; then rm -f "$wanted"; exit; fi
${INSTANCE_VARIABLE}=$4 ${PART_VARIABLE}=$5 setsid sh -c "$3" become "$at" "$wanted"
code=$?
rm -f "$wanted"
while [ -d "$at" ] && ! { echo $code >"$wanted.end" && mv "$wanted.end" "$at/end"; }; do sleep 1; done`

/**
 * Starts a command that nobody has to wait for, whose output and end are kept.
 *
 * Asked twice, also at once: each may start a runner, and one of those becomes the runner; everybody waits until that has
 * started the command.
 * Killed half-way: nothing has been started, and whoever asks again does it; or a runner is at work, which needs nobody.
 * A runner that was killed: the agent may never have begun, but it is not begun again.
 */
export async function startAgent(inside: Inside, { part, command, env = {} }: AskedAgent, call: Call): Promise<void> {
  const words = [...Object.entries(env).map(([name, value]) => `${name}=${value}`), ...command]
  if (command.length === 0 || words.some((word) => word.includes('\0')))
    throw new BackendError('spec_invalid', `${JSON.stringify(command)} is no command`)
  const assigned = words.slice(0, -command.length).map(quote).join(' ')
  // The marks as they are when it is started, whatever the agent's own environment says.
  const marks = [INSTANCE_VARIABLE, PART_VARIABLE].map((name) => `"${name}=$${name}"`).join(' ')
  const wanted =
    refusalOf(words) ?? `set -- env ${assigned} ${marks} sh -c 'exec "$@"' sh ${command.map(quote).join(' ')}\n`
  const file = `.wanted-${randomUUID()}`
  await ask(
    inside,
    `make_base
at=$base/${part}
if [ ! -e "$at/runner" ]; then
  mkdir -p "$at" && : >>"$at/output" || fail "an agent has no folder"
  ${await deliver(inside, file, wanted, call)}
  # Without an ampersand, which would have it ignore interrupts. The first makes a session, so that the second has to leave it.
  setsid setsid sh -c ${quote(RUN)} run "$at" "$base/${file}" ${quote(BECOME)} "$base" ${part} </dev/null >/dev/null 2>&1
  rounds=0
  until [ -e "$at/runner" ]; do
    [ $rounds -lt 500 ] || fail "nothing that could run an agent has begun"
    rounds=$((rounds + 1))
    nap 0.02
  done
fi
settle "$at"
say started`,
    call,
  )
}

/** What the system would not take as an argument has a shell's end, and says why, like every command that cannot be started. */
function refusalOf(words: readonly string[]): string | undefined {
  const bytes = Math.max(...words.map((word) => Buffer.byteLength(word)))
  if (bytes <= ARGUMENT_BYTES_MAX) return undefined
  const why = `One argument, or one variable, has ${bytes} bytes, and the system takes ${ARGUMENT_BYTES_MAX} (E2BIG)`
  return `echo ${quote(why)}\nexit 126\n`
}
