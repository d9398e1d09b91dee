import type { Fleet } from '../fleet/fleet.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { printJson } from './json.ts'
import type { Session } from './session.ts'
import { executionLines, operationLines, sandboxLines } from './sheet.ts'
import { type View, watch } from './watch.ts'
import { wireAnswer, wireExecutionAnswer, wireOperation, wireSandbox } from './wire.ts'

/** The newest of each. */
const OPERATIONS = 10
const EXECUTIONS = 5
const STORY = 10

export function show({ values, args, session }: Invocation<{ json: boolean; watch: boolean }>): Promise<number> {
  const [id] = args as [string]
  const look = id.startsWith('op_') ? lookAtOperation : id.startsWith('exe_') ? lookAtExecution : lookAtSandbox
  return withFleet(session, async (fleet, signal) => {
    const { json } = values
    if (values.watch) await watch(session, { look: () => look(fleet, id, session), json, signal })
    else {
      const { lines, document } = await look(fleet, id, session)
      if (json) await session.io.out.write(printJson(document))
      else await session.say(lines.join('\n'))
    }
    return exit('done')
  })
}

async function lookAtSandbox(fleet: Fleet, id: string, { io: { out } }: Session): Promise<View> {
  const [sandbox, operations, executions, why] = await Promise.all([
    fleet.get(id),
    fleet.operations(id, { limit: OPERATIONS }),
    // An id that cannot be one is told about by the others.
    fleet.executions({ sandboxId: id, limit: EXECUTIONS }).catch(() => ({ items: [] })),
    fleet.why(id),
  ])
  const story = why.story.slice(-STORY)
  const known = { sandbox, operations: operations.items, executions: executions.items, story }
  return {
    lines: sandboxLines(known, { width: out.columns(), hasColours: out.hasColours, now: new Date() }),
    news: sandboxLines(known),
    document: {
      sandbox: wireSandbox(sandbox),
      operations: operations.items.map(wireOperation),
      executions: executions.items,
      answer: why.answer,
      story,
    },
  }
}

async function lookAtOperation(fleet: Fleet, id: string, { io: { out } }: Session): Promise<View> {
  const answer = await fleet.operation(id)
  return {
    lines: operationLines(answer, { width: out.columns(), hasColours: out.hasColours, now: new Date() }),
    news: operationLines(answer),
    document: wireAnswer(answer),
    isOver: answer.operation.settledAt !== null,
  }
}

async function lookAtExecution(fleet: Fleet, id: string, { io: { out } }: Session): Promise<View> {
  const answer = await fleet.execution(id)
  return {
    lines: executionLines(answer, { width: out.columns(), hasColours: out.hasColours, now: new Date() }),
    news: executionLines(answer),
    document: wireExecutionAnswer(answer),
    isOver: answer.execution.endedAt !== null,
  }
}
