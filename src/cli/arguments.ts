import { parseArgs } from 'node:util'
import { DURATION } from '../duration.ts'
import { nearest } from '../nearest.ts'
import type { Argument, Command, Option, Options } from './command.ts'
import { harmless } from './harmless.ts'

/** Somebody has typed what cannot be meant. Nothing was asked of anybody. */
export class UsageError extends Error {
  /** Whose help says more: that of the command that runs, unless another one is named; null where it is of no command. */
  readonly command: Command | null | undefined

  constructor(message: string, command?: Command | null) {
    super(message)
    this.name = 'UsageError'
    this.command = command
  }
}

type Read =
  | { is: 'help'; command: Command | undefined }
  | { is: 'version' }
  | { is: 'command'; command: Command; values: Record<string, unknown>; args: string[]; rest: string[] }

export function readArguments(argv: readonly string[], commands: readonly Command[]): Read {
  const [name, ...given] = argv
  if (name === undefined) throw new UsageError('a command is needed')
  if (name === '--help' || name === '-h') return { is: 'help', command: undefined }
  if (name === '--version' || name === '-v') return { is: 'version' }
  if (name.startsWith('-'))
    throw new UsageError(`the command comes first, and ${quote(name)} behind it: sandman <command> [options]`)
  const command = commands.find((each) => each.name === name)
  if (!command) throw unknownCommand(name, commands)
  return readFor(command, given, commands)
}

export function unknownCommand(name: string, commands: readonly Command[]): UsageError {
  const shown = commands.filter(({ hidden }) => !hidden).map((each) => each.name)
  return new UsageError(`there is no command ${quote(name)}${meant(nearest(name, shown))}`, null)
}

function readFor(command: Command, given: readonly string[], commands: readonly Command[]): Read {
  const dashes = given.indexOf('--')
  const [before, rest] = dashes === -1 ? [given, []] : [given.slice(0, dashes), given.slice(dashes + 1)]
  const { tokens } = parseArgs({ args: [...before], options: declare(command), strict: false, tokens: true })
  const lists: Record<string, string[]> = {}
  const flags = new Set<string>()
  for (const token of tokens) {
    if (token.kind !== 'option') continue
    const { name, rawName, value, inlineValue } = token
    if (name === 'help') return { is: 'help', command }
    const option = Object.hasOwn(command.options, name) ? command.options[name] : undefined
    if (!option) throw unknownOption(rawName, command, commands)
    const usage = (message: string) => new UsageError(`--${name} ${message}`, command)
    if (option.value === undefined) {
      if (inlineValue) throw usage('takes no value')
      flags.add(name)
      continue
    }
    if (value === undefined || (!inlineValue && value.startsWith('-') && value !== '-'))
      throw usage(`needs a value: --${name} ${option.value}`)
    const problem = problemOf(option, value)
    if (problem) throw usage(problem)
    const list = lists[name] ?? []
    lists[name] = list
    if (list.length > 0 && !option.many) throw usage('can be given once')
    list.push(value)
  }
  const args = tokens.flatMap((token) => (token.kind === 'positional' ? [token.value] : []))
  checkCount(command, args)
  if (dashes !== -1 && !command.rest) throw new UsageError(`${command.name} takes nothing behind --`, command)
  const values = Object.fromEntries(
    Object.entries(command.options).map(([name, option]) => [name, readValue(option, lists[name], flags.has(name))]),
  )
  return { is: 'command', command, values, args, rest: [...rest] }
}

function declare({ options }: { options: Options }) {
  const declared = Object.entries(options).map(([name, { value, short }]) => [
    name,
    { type: value === undefined ? ('boolean' as const) : ('string' as const), ...(short && { short }) },
  ])
  return { ...Object.fromEntries(declared), help: { type: 'boolean' as const, short: 'h' } }
}

function readValue(option: Option, list: string[] | undefined, isSet: boolean): unknown {
  if (option.value === undefined) return isSet
  if (option.many) return list ?? []
  const [value] = list ?? []
  return value !== undefined && option.is === 'number' ? Number(value) : value
}

/** What the library would refuse too, said in the words of who has typed it. */
function problemOf({ is }: Option, value: string): string | undefined {
  if (value === '') return 'must not be empty'
  if (is === 'duration') return DURATION.test(value) ? undefined : 'must be a duration such as 90s, 15m or 24h'
  if (is === 'number') return /^\d{1,15}$/.test(value) ? undefined : 'must be a whole number'
  if (is === 'pair') return /^[^=]+=/.test(value) ? undefined : 'must be of the form key=value'
  if (is === undefined || is.includes(value)) return undefined
  return `cannot be ${quote(value)}: it can be ${is.join(', ')}${meant(nearest(value, is))}`
}

function unknownOption(rawName: string, command: Command, commands: readonly Command[]): UsageError {
  const name = rawName.replace(/^-+/, '')
  const own = Object.keys(command.options).filter((each) => !command.options[each]?.hidden)
  const guess = rawName.startsWith('--') ? nearest(name, [...own, 'help']) : undefined
  const others = commands.filter(
    ({ options, hidden }) => !hidden && Object.hasOwn(options, name) && !options[name]?.hidden,
  )
  const elsewhere = others.length > 0 ? `; it is one of ${others.map((each) => each.name).join(', ')}` : ''
  return new UsageError(
    `${command.name} has no option ${quote(rawName)}${guess ? meant(`--${guess}`) : elsewhere}`,
    command,
  )
}

function checkCount(command: Command, args: readonly string[]): void {
  const wanted: readonly Argument[] = command.arguments ?? []
  const missing = wanted.filter(({ optional }, nth) => !optional && args[nth] === undefined)
  if (missing.length > 0)
    throw new UsageError(
      `${command.name} needs ${missing.map(({ name, help }) => `<${name}>: ${lower(help)}`).join(' and ')}`,
      command,
    )
  const tooMany = wanted.some(({ many }) => many) ? undefined : args[wanted.length]
  if (tooMany === undefined) return
  const dashes = command.rest ? ' (a command goes behind --)' : ''
  throw new UsageError(`${command.name} does not know what to do with ${quote(tooMany)}${dashes}`, command)
}

const quote = (text: string) => `"${harmless(text)}"`
const meant = (guess: string | undefined) => (guess ? `; did you mean ${guess}?` : '')
const lower = (text: string) => text.charAt(0).toLowerCase() + text.slice(1).replace(/\.$/, '')
