import { quote } from '../../quote-word.ts'
import type { Call } from '../backend.ts'
import { ask, type Inside } from './shell.ts'

/**
 * Asks all that belongs to an agent to end, and kills what is left of it after two seconds. Returns when its end is known, or
 * nobody is left who could tell it.
 */
export async function stopAgent(inside: Inside, part: string, call: Call): Promise<void> {
  await ask(
    inside,
    `if ! find_base || [ ! -e "$base/${part}/runner" ]; then say none; exit; fi
settle "$base/${part}"
list=$(members ${quote(part)})
# All stand still meanwhile: a shell whose child is told first would go on with its next line, and end well.
for signal in STOP TERM CONT; do [ -z "$list" ] || kill -$signal $list 2>/dev/null; done
is_any_left() { for pid in $list; do identify $pid && return; done; return 1; }
rounds=0
while [ $rounds -lt 40 ] && is_any_left; do
  rounds=$((rounds + 1))
  nap 0.05
done
destroy ${quote(part)}
rounds=0
while [ ! -e "$base/${part}/end" ] && is_there "$base/${part}/runner" && [ $rounds -lt 250 ]; do
  rounds=$((rounds + 1))
  nap 0.02
done
say stopped`,
    call,
  )
}

/** Ends what commands have left running, and agents that were started by key, but neither the sandbox's own agent nor its sidecar. */
export async function endLingering(inside: Inside, call: Call): Promise<void> {
  await ask(
    inside,
    `find_base || { say none; exit; }
for at in "$base"/*; do settle "$at"; done
destroy ''
say ended`,
    call,
  )
}

/**
 * Ends what has come with a copy of another instance, and removes what that has kept of its agents. A copy of a sandbox's memory
 * has its processes, too, which know nothing of their new life.
 */
export async function endFormer(inside: Inside, call: Call): Promise<void> {
  await ask(
    inside,
    `# By their marks only: the pids that were written down may by now be those of others.
leaders() { :; }
make_base
own=$base
for base in "\${own%/*}"/*; do
  if [ "$base" = "$own" ]; then continue; fi
  destroy ''; destroy agent; destroy sidecar
  rm -rf "$base"
done
say ended`,
    call,
  )
}
