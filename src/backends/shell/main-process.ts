import { quote } from '../../quote-word.ts'
import { FIND_BASE, IDENTIFY, INSTANCE_VARIABLE, PART_VARIABLE } from './prelude.ts'

/** In the environment of such a container: the name under which its agents are kept, as scripts in it will call it. */
export const ROOT_VARIABLE = 'SANDMAN_ROOT'

/** Becomes the command, once it has been written down which process that is. Arguments: the agent's folder, and the command. */
const BECOME = `exec 2>&3 3>&-
${IDENTIFY}
at=$1
shift
if [ -d "$at" ] && identify $$; then
  (umask 077; printf '%s %s\\n' $$ "$is" >"$at/.agent" && mv "$at/.agent" "$at/agent") 2>/dev/null
fi
exec "$@"`

/**
 * The agent is not the first process of its container: that one could not be killed from within, and would have to look after
 * whatever loses its parents. It runs below a shell, in a session of its own, and how it ends is how the container ends.
 */
const MAIN = `root=\${${ROOT_VARIABLE}:-none}
fail() { base=; }
${FIND_BASE}
${IDENTIFY}
mask=$(umask)
umask 077
make_base 2>/dev/null
at=$base/agent
if [ -n "$base" ] && mkdir -p "$at" && identify $$; then printf '%s %s\\n' $$ "$is" >"$at/runner"; fi 2>/dev/null
umask "$mask"
if ! command -v setsid >/dev/null; then echo "sandman: there is no setsid in this image" >&2; exit 127; fi
# Some shells say of a child that it was killed, also where it was redirected to: the agent has not said that.
exec 3>&2 2>/dev/null
${INSTANCE_VARIABLE}=$base ${PART_VARIABLE}=agent setsid sh -c ${quote(BECOME)} become "$at" "$@"
exit $?`

/** What a container is to run so that its main process is an agent that `stopAgent` and `endLingering` know. */
export function mainProcess(command: readonly string[]): string[] {
  return ['sh', '-c', MAIN, 'sandman', ...command]
}

/** What tells the agent to end before its container is killed: the first process would not hand the signal on. */
export const BEFORE_STOP = [
  'sh',
  '-c',
  `root=\${${ROOT_VARIABLE}:-none}
fail() { exit; }
${FIND_BASE}
${IDENTIFY}
find_base || exit 0
pid= known=
{ read -r pid known <"$base/agent/agent"; } 2>/dev/null
while [ -n "$pid" ] && identify "$pid" && [ "$is" = "$known" ]; do
  [ -n "$told" ] || kill -s TERM -- "-$pid"
  told=yes
  sleep 0.1 2>/dev/null || sleep 1
done`,
]
