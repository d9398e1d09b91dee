import { quote } from '../../quote-word.ts'
import type { Command, Option } from '../command.ts'
import { optionsOf } from '../help.ts'
import { argumentOf, offersOf } from './words.ts'

/** Works when it is sourced, and as a file _sandman in the fpath. */
export function zshScript(commands: readonly Command[]): string {
  return `#compdef sandman
# zsh completion for sandman: source <(sandman completion zsh), behind compinit
_sandman_ids() {
  local -a ids
  ids=(\${(f)"$(sandman __ids "$1" "$PREFIX" 2>/dev/null)"})
  compadd -a ids
}
_sandman() {
  local -a commands
  local state line
  commands=(
${commands.map(({ name, summary }) => `    ${quote(`${name}:${summary}`)}`).join('\n')}
  )
  _arguments -C '1: :->command' '*:: :->rest' '(- *)--help[explain everything]' '(- *)--version[which release this is]'
  case $state in
    command) _describe command commands ;;
    rest)
      case $words[1] in
${commands.map((command) => commandCase(command, commands)).join('\n')}
      esac ;;
  esac
}
if [ "$funcstack[1]" = _sandman ]; then _sandman "$@"; else compdef _sandman sandman; fi
`
}

function commandCase(command: Command, commands: readonly Command[]): string {
  const specs = [
    ...optionsOf(command).flatMap(([name, option]) => optionSpecs(name, option)),
    quote('(- *)--help[explain it]'),
    ...argumentSpecs(command, commands),
  ]
  return `        ${command.name}) _arguments -s ${specs.join(' ')} ;;`
}

function optionSpecs(name: string, option: Option): string[] {
  const help = `[${option.help.replaceAll(/[[\]]/g, '')}]`
  const offers = offersOf(option)
  const value = option.value === undefined ? '' : `:${name}:${offers.length > 0 ? `(${offers.join(' ')})` : ' '}`
  const many = option.many ? '*' : ''
  const names = [`--${name}`, ...(option.short ? [`-${option.short}`] : [])]
  return names.map((each) => quote(`${many}${each}${help}${value}`))
}

function argumentSpecs(command: Command, commands: readonly Command[]): string[] {
  const { words, ids } = argumentOf(command, commands)
  const [first] = command.arguments ?? []
  const rest = command.rest ? [quote('*:command:_command_names -e')] : []
  if (!first) return rest
  const action = ids ? `_sandman_ids ${ids}` : `(${words.join(' ')})`
  return [quote(`${first.many ? '*' : '1'}:${first.name}:${action}`), ...rest]
}
