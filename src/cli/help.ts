import { unknownCommand } from './arguments.ts'
import { type Command, GROUPS, type Invocation, type Option } from './command.ts'
import { EXITS, type Exit } from './exits.ts'

export async function help({ args: [name], session }: Invocation): Promise<number> {
  const command = session.commands.find((each) => each.name === name)
  if (name !== undefined && !command) throw unknownCommand(name, session.commands)
  await session.say(command ? explain(command) : overview(session.commands))
  return 0
}

/** All commands, a line each. */
export function overview(commands: readonly Command[]): string {
  const shown = commands.filter(({ hidden }) => !hidden)
  const width = Math.max(...shown.map(({ name }) => name.length))
  const groups = GROUPS.map((group) => {
    const lines = shown.filter((command) => command.group === group)
    return `${group}\n${lines.map(({ name, summary }) => `  ${name.padEnd(width)}  ${summary}`).join('\n')}`
  })
  return `sandman <command> [arguments] [options]

${groups.join('\n\n')}

sandman <command> --help explains one of them; --version says which release this is.
It is configured by the environment, and by a file .env in this folder; docs/configuration.md lists the settings.`
}

/** One command, with everything that it takes. */
export function explain(command: Command): string {
  const { summary, about, examples } = command
  return [
    `sandman ${command.name}: ${summary}`,
    `Usage\n  ${usage(command)}`,
    ...(about
      ? [
          about
            .match(/.{1,98}(\s|$)/g)
            ?.map((line) => line.trimEnd())
            .join('\n') ?? about,
        ]
      : []),
    ...section('Arguments', argumentsOf(command)),
    ...section('Options', [
      ...optionsOf(command).map(([name, option]) => [spell(name, option), option.help] as const),
      ['-h, --help', 'This.'],
    ]),
    ...(examples.length > 0 ? [`Examples\n${examples.map(([line, does]) => `  ${line}  # ${does}`).join('\n')}`] : []),
    ...section(
      'Exit codes',
      exitsOf(command).map((name) => [String(EXITS[name].code), EXITS[name].means.replaceAll('`', '')] as const),
    ),
  ].join('\n\n')
}

export function usage(command: Command): string {
  const args = (command.arguments ?? []).map(({ name, many, optional }) => {
    const shown = `<${name}>${many ? '…' : ''}`
    return optional ? `[${shown}]` : shown
  })
  const options = optionsOf(command).length > 0 ? ['[options]'] : []
  const rest = command.rest ? [command.rest.optional ? '[-- command…]' : '-- command…'] : []
  return ['sandman', command.name, ...args, ...options, ...rest].join(' ')
}

export function argumentsOf({ arguments: wanted = [], rest }: Command): (readonly [string, string])[] {
  return [
    ...wanted.map(({ name, help }) => [`<${name}>`, help] as const),
    ...(rest ? [['-- command…', rest.help] as const] : []),
  ]
}

export function optionsOf({ options }: Command): [string, Option][] {
  return Object.entries(options).filter(([, { hidden }]) => !hidden)
}

export function spell(name: string, { value, short }: Option): string {
  return `${short ? `-${short}, ` : ''}--${name}${value === undefined ? '' : ` ${value}`}`
}

/** With those that every command may end with. */
export function exitsOf({ exits = [] }: Command): Exit[] {
  const all = new Set<Exit>(['done', 'failed', 'usage', ...exits])
  return (Object.keys(EXITS) as Exit[]).filter((name) => all.has(name))
}

/** Wider than this, what explains it stands below. */
const LEFT_MAX = 32

function section(title: string, lines: readonly (readonly [string, string])[]): string[] {
  if (lines.length === 0) return []
  const width = Math.min(LEFT_MAX, Math.max(...lines.map(([left]) => left.length)))
  const laid = lines.map(([left, right]) =>
    left.length > width ? `  ${left}\n  ${' '.repeat(width)}  ${right}` : `  ${left.padEnd(width)}  ${right}`,
  )
  return [`${title}\n${laid.join('\n')}`]
}
