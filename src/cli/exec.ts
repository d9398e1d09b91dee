import { isSandmanError } from '../errors.ts'
import { size } from '../fleet/words.ts'
import { executionAnswerView } from '../wire/views.ts'
import { UsageError } from './arguments.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { sentence, sentences } from './harmless.ts'
import { printJson } from './json.ts'
import { printOutput } from './print-output.ts'

type Asked = {
  deadline: string | undefined
  silence: string | undefined
  'if-suspended': 'refuse' | undefined
  'if-lost': 'respawn' | undefined
  'idempotency-key': string | undefined
  detach: boolean
  json: boolean
}

export async function exec(invocation: Invocation<Asked>): Promise<number> {
  if (invocation.values.json && !invocation.values.detach)
    throw new UsageError('--json is for --detach: what exec prints is what the command prints')
  try {
    return await runThere(invocation)
  } catch (error) {
    // The exit codes of `exec` are the command's own: whatever fails on Sandman's side is one code that stands for that.
    if (!isSandmanError(error) || error.code === 'request_invalid') throw error
    await invocation.session.complain(sentences(error.message))
    return exit('broken')
  }
}

function runThere({ values, args, rest, session }: Invocation<Asked>): Promise<number> {
  const [sandboxId] = args as [string]
  const { deadline, silence, 'if-suspended': ifSuspended, 'if-lost': ifLost, 'idempotency-key': key } = values
  return withFleet(session, async (fleet, signal) => {
    const answer = await fleet.execute(sandboxId, {
      ...(rest.length > 0 && { command: rest }),
      ...(deadline !== undefined && { deadline }),
      ...(silence !== undefined && { silence }),
      ...(ifSuspended !== undefined && { ifSuspended }),
      ...(ifLost !== undefined && { ifLost }),
      ...(key !== undefined && { idempotencyKey: key }),
    })
    const { id } = answer.execution
    if (values.detach) {
      if (values.json) await session.io.out.write(printJson(executionAnswerView(answer)))
      else await session.say(id)
      return exit('done')
    }
    try {
      await printOutput(fleet.output(id, { signal }), session.io.out)
    } catch (error) {
      if (!signal.aborted) throw error
      await session.complain(
        `you stopped listening; ${id} goes on. Listen again: sandman logs ${id} --follow. Stop it: sandman cancel ${id}`,
      )
      return exit('interrupted')
    }
    const { execution } = await fleet.execution(id)
    const { status, reason, exitCode, message, truncated, outputBytes } = execution
    if (truncated) await session.note(`sandman: it printed more than is kept: ${size(outputBytes)} of it are.`)
    // A command that ends by itself has said what it has to say.
    const isOwn = exitCode !== null && (reason === 'completed' || reason === 'error')
    if (!isOwn)
      await session.complain(
        `${id} ${status}: ${reason}${message ? `: ${sentence(message).replace(/\.$/, '')}` : ''}. See "sandman why ${sandboxId}".`,
      )
    return exitCode ?? exit('broken')
  })
}
