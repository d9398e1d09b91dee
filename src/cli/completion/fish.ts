import type { Command } from '../command.ts'
import { optionsOf } from '../help.ts'
import { argumentOf, offersOf } from './words.ts'

export function fishScript(commands: readonly Command[]): string {
  const names = commands.map(({ name }) => name).join(' ')
  return `# fish completion for sandman: sandman completion fish > ~/.config/fish/completions/sandman.fish
complete -c sandman -f
set -l commands ${names}
${commands.map(({ name, summary }) => `complete -c sandman -n "not __fish_seen_subcommand_from $commands" -a ${name} -d ${quote(summary)}`).join('\n')}
complete -c sandman -n "not __fish_seen_subcommand_from $commands" -l version -d 'which release this is'
complete -c sandman -l help -s h -d 'explain it'
${commands.flatMap((command) => linesOf(command, commands)).join('\n')}
`
}

function linesOf(command: Command, commands: readonly Command[]): string[] {
  const when = `complete -c sandman -n "__fish_seen_subcommand_from ${command.name}"`
  const options = optionsOf(command).map(([name, option]) => {
    const short = option.short ? ` -s ${option.short}` : ''
    const offers = offersOf(option)
    const value = option.value === undefined ? '' : ` -x${offers.length > 0 ? ` -a ${quote(offers.join(' '))}` : ''}`
    return `${when} -l ${name}${short}${value} -d ${quote(option.help)}`
  })
  const { words, ids } = argumentOf(command, commands)
  if (ids) return [...options, `${when} -a "(sandman __ids ${ids} (commandline -ct) 2>/dev/null)"`]
  return words.length > 0 ? [...options, `${when} -a ${quote(words.join(' '))}`] : options
}

function quote(text: string): string {
  return `'${text.replaceAll('\\', '\\\\').replaceAll("'", "\\'")}'`
}
