import { size } from '../fleet/words.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { printOutput } from './print-output.ts'

type Asked = { follow: boolean; from: number | undefined }

export function logs({ values, args, session }: Invocation<Asked>): Promise<number> {
  const [id] = args as [string]
  return withFleet(session, async (fleet, signal) => {
    const { execution } = await fleet.execution(id)
    const { from = 0, follow } = values
    // All that is there now; an execution that has ended brings no more.
    const to = follow ? Number.POSITIVE_INFINITY : execution.outputBytes
    if (from >= to) return exit('done')
    try {
      await printOutput(fleet.output(id, { from, signal }), session.io.out, to)
    } catch (error) {
      if (!signal.aborted) throw error
      return exit('interrupted')
    }
    if (follow) {
      const { execution: ended } = await fleet.execution(id)
      if (ended.truncated) await session.note(`It printed more than is kept: ${size(ended.outputBytes)} of it are.`)
    }
    return exit('done')
  })
}
