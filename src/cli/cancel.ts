import { executionAnswerView } from '../wire/views.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { printJson } from './json.ts'
import { untilEnded, type Waiting, waitMsOf } from './settle.ts'
import { took } from './took.ts'

export function cancel({ values, args, session }: Invocation<Waiting & { json: boolean }>): Promise<number> {
  const [id] = args as [string]
  return withFleet(session, async (fleet, signal) => {
    const waitMs = waitMsOf(values)
    const answer = await untilEnded(fleet, await fleet.cancel(id), { waitMs, signal })
    const { status, reason, endedAt } = answer.execution
    if (values.json) await session.io.out.write(printJson(executionAnswerView(answer)))
    if (endedAt !== null || waitMs === 0) {
      if (!values.json) await session.say(`${id}  ${status}  ${reason ?? 'will be stopped'}`)
      return exit('done')
    }
    const why = signal.aborted ? 'you stopped waiting' : `it has not ended within ${took(waitMs)}`
    await session.complain(`${id}: ${why}; it will be stopped all the same. See "sandman show ${id} --watch".`)
    return exit(signal.aborted ? 'interrupted' : 'unsettled')
  })
}
