import { inspect } from 'node:util'
import { SandmanError } from '../errors.ts'
import { ChildFailed } from '../fleet/child.ts'
import { VERSION } from '../version.ts'
import { readArguments, UsageError } from './arguments.ts'
import type { Command } from './command.ts'
import { COMMANDS } from './commands.ts'
import { exit } from './exits.ts'
import { codeOf } from './failure.ts'
import { sentences } from './harmless.ts'
import { explain, overview, usage } from './help.ts'
import type { Io } from './io.ts'
import { Session } from './session.ts'

/** Does what was typed. The exit code; everything has been printed. */
export async function run(argv: readonly string[], io: Io): Promise<number> {
  const session = new Session(io, COMMANDS)
  let running: Command | undefined
  try {
    const read = readArguments(argv, COMMANDS)
    if (read.is === 'version') await session.say(VERSION)
    else if (read.is === 'help') await session.say(read.command ? explain(read.command) : overview(COMMANDS))
    else {
      running = read.command
      return await running.run({ ...read, session } as Parameters<typeof running.run>[0])
    }
    return exit('done')
  } catch (error) {
    return complain(error, session, running)
  }
}

/** An expected failure is a sentence; anything else is a bug, and its stack is what helps. */
async function complain(error: unknown, session: Session, running: Command | undefined): Promise<number> {
  if (error instanceof UsageError) {
    const { command = running, message } = error
    const next = command
      ? `Usage: ${usage(command)}\nsandman ${command.name} --help explains it.`
      : 'sandman --help lists the commands.'
    await session.complain(`${message}\n\n${next}`)
    return exit('usage')
  }
  if (error instanceof ChildFailed) return exit('failed') // it has said why
  if (!(error instanceof SandmanError)) {
    await session.complain(inspect(error))
    return exit('failed')
  }
  await session.complain(sentences(error.message))
  return codeOf(error)
}
