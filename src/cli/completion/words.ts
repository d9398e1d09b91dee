import type { Command, Option } from '../command.ts'
import { optionsOf } from '../help.ts'

/** What can be typed for a command. */
export function flagsOf(command: Command): string[] {
  return [
    ...optionsOf(command).flatMap(([name, { short }]) => [...(short ? [`-${short}`] : []), `--${name}`]),
    '--help',
  ]
}

/** What an option's value can be, as far as that is known. */
export function offersOf({ is, offers }: Option): readonly string[] {
  return offers ?? (Array.isArray(is) ? is : [])
}

/** What can stand where a command wants an argument: words, or ids that are looked up. */
export function argumentOf(command: Command, commands: readonly Command[]): { words: string[]; ids?: string } {
  if (command.name === 'help') return { words: commands.map(({ name }) => name) }
  const [first] = command.arguments ?? []
  if (typeof first?.names === 'string') return { words: [], ids: first.names }
  return { words: [...(first?.names ?? [])] }
}
