import type { Command } from '../command.ts'
import { optionsOf } from '../help.ts'
import { argumentOf, flagsOf, offersOf } from './words.ts'

/** Needs nothing but bash itself, of any age. */
export function bashScript(commands: readonly Command[]): string {
  return `# bash completion for sandman: source <(sandman completion bash)
_sandman() {
  local word=\${COMP_WORDS[COMP_CWORD]} before=\${COMP_WORDS[COMP_CWORD-1]} command=\${COMP_WORDS[1]} words= ids= i
  COMPREPLY=()
  if [ "$COMP_CWORD" -eq 1 ]; then
    COMPREPLY=($(compgen -W "${commands.map(({ name }) => name).join(' ')} --help --version" -- "$word"))
    return
  fi
  # Behind -- stands a command of another program.
  for ((i = 2; i < COMP_CWORD; i++)); do
    if [ "\${COMP_WORDS[i]}" = -- ]; then COMPREPLY=($(compgen -c -- "$word")); return; fi
  done
  case "$command $before" in
${commands.flatMap(valueCases).join('\n')}
  esac
  case "$command" in
${commands.map((command) => commandCase(command, commands)).join('\n')}
  esac
  case "$word" in -*) ;; *) words=\${words#*|} ;; esac
  words=\${words%%|*}
  if [ -n "$ids" ] && [ "\${word#-}" = "$word" ]; then
    words="$words $("\${COMP_WORDS[0]}" __ids "$ids" "$word" 2>/dev/null)"
  fi
  COMPREPLY=($(compgen -W "$words" -- "$word"))
}
complete -o default -F _sandman sandman
`
}

/** What may follow an option that wants a value. Where nobody knows, the shell's own completion helps. */
function valueCases(command: Command): string[] {
  return optionsOf(command).flatMap(([name, option]) => {
    if (option.value === undefined) return []
    const offers = offersOf(option)
    const reply = offers.length > 0 ? `COMPREPLY=($(compgen -W "${offers.join(' ')}" -- "$word")); return` : 'return'
    return [`    "${command.name} --${name}") ${reply} ;;`]
  })
}

/** Options and arguments, with a bar between them: which of them are meant depends on what was typed. */
function commandCase(command: Command, commands: readonly Command[]): string {
  const { words, ids } = argumentOf(command, commands)
  const looked = ids ? `; ids=${ids}` : ''
  const flags = flagsOf(command).join(' ')
  return `    ${command.name}) words="${flags}|${command.arguments ? words.join(' ') : flags}"${looked} ;;`
}
