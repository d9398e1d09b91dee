import type { Exit } from './exits.ts'
import type { Session } from './session.ts'

/** One option of a command. Without a `value` it is a flag. */
export type Option = {
  help: string
  /** What stands for its value in the help. */
  value?: string
  /** What the value has to be. It is text, unless this says more. */
  is?: 'duration' | 'number' | 'pair' | readonly string[]
  /** What completion offers; a value may also be another one. */
  offers?: readonly string[]
  /** It may be given more than once. */
  many?: true
  short?: string
  /** Not for people. */
  hidden?: true
}
export type Options = Readonly<Record<string, Option>>

type ValueOf<Given extends Option> = Given extends { value: string }
  ? Given extends { many: true }
    ? string[]
    : OneOf<Given> | undefined
  : boolean

type OneOf<Given extends Option> = Given extends { is: 'number' }
  ? number
  : Given extends { is: readonly (infer Word)[] }
    ? Word
    : string

type Values<Given extends Options> = { [Name in keyof Given]: ValueOf<Given[Name]> }

/** What a command is told without naming it. */
export type Argument = {
  name: string
  help: string
  /** What completion looks for. */
  names?: 'sandbox' | 'execution' | readonly string[]
  many?: true
  optional?: true
}

/** What somebody has typed, read by the table. */
export type Invocation<Typed = Values<Options>> = {
  values: Typed
  args: string[]
  /** What stands behind `--`. */
  rest: string[]
  session: Session
}

export const GROUPS = ['Sandboxes', 'Executions', 'Processes', 'Care', 'Shell'] as const

/** A command, as people are told of it: help, completion and docs/command-line.md are printed from this. */
export type Command<Given extends Options = Options> = {
  name: string
  group: (typeof GROUPS)[number]
  /** One line. */
  summary: string
  /** What one has to know besides, in sentences. */
  about?: string
  arguments?: readonly Argument[]
  /** What stands behind `--`. */
  rest?: { help: string; optional?: true }
  options: Given
  examples: readonly (readonly [command: string, does: string])[]
  /** Those besides done, failed and usage, which every command may end with. */
  exits?: readonly Exit[]
  hidden?: true
  /** The exit code; what is printed has been printed. Loads what it needs, and no other command's libraries. */
  run(invocation: Invocation<Values<Given>>): Promise<number>
}

/** With the types of its values, which follow from its options. */
export function defineCommand<const Given extends Options>(command: Command<Given>): Command {
  return command as unknown as Command
}
