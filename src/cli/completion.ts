import { nearest } from '../nearest.ts'
import { UsageError } from './arguments.ts'
import type { Command, Invocation } from './command.ts'
import { bashScript } from './completion/bash.ts'
import { fishScript } from './completion/fish.ts'
import { zshScript } from './completion/zsh.ts'
import { exit } from './exits.ts'

const SCRIPTS: Record<string, (commands: readonly Command[]) => string> = {
  bash: bashScript,
  zsh: zshScript,
  fish: fishScript,
}

export async function completion({ args, session }: Invocation): Promise<number> {
  const [shell] = args as [string]
  const script = Object.hasOwn(SCRIPTS, shell) ? SCRIPTS[shell] : undefined
  if (!script) {
    const names = Object.keys(SCRIPTS)
    const guess = nearest(shell, names)
    throw new UsageError(
      `there is no completion for ${JSON.stringify(shell)}${guess ? `; did you mean ${guess}?` : `: there is one for ${names.join(', ')}`}`,
    )
  }
  await session.io.out.write(script(session.commands.filter(({ hidden }) => !hidden)))
  return exit('done')
}
