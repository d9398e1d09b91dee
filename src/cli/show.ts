import type { Fleet } from '../fleet/fleet.ts'
import { kindOfId } from '../sandbox/ids.ts'
import { answerView, executionAnswerView, operationView, sandboxView } from '../wire/views.ts'
import { withFleet } from './asking.ts'
import type { Invocation } from './command.ts'
import { exit } from './exits.ts'
import { printJson } from './json.ts'
import { executionLines, operationLines, type Style, sandboxLines } from './sheet.ts'
import { type View, watch } from './watch.ts'

/** The newest of each. */
const OPERATIONS = 10
const EXECUTIONS = 5
const STORY = 10

export function show({ values, args, session }: Invocation<{ json: boolean; watch: boolean }>): Promise<number> {
  const [id] = args as [string]
  const kind = kindOfId(id)
  const look = kind === 'operation' ? lookAtOperation : kind === 'execution' ? lookAtExecution : lookAtSandbox
  return withFleet(session, async (fleet, signal) => {
    const { json } = values
    const { out } = session.io
    const style = () => ({ hasColours: out.hasColours, now: new Date() })
    // What is drawn in place has to fit. What is printed once is whole: an error that is cut off helps nobody.
    if (values.watch)
      await watch(session, { look: () => look(fleet, id, { ...style(), width: out.columns() }), json, signal })
    else {
      const { lines, document } = await look(fleet, id, style())
      if (json) await out.write(printJson(document))
      else await session.say(lines.join('\n'))
    }
    return exit('done')
  })
}

async function lookAtSandbox(fleet: Fleet, id: string, style: Style): Promise<View> {
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
    lines: sandboxLines(known, style),
    news: sandboxLines(known),
    document: {
      sandbox: sandboxView(sandbox),
      operations: operations.items.map(operationView),
      executions: executions.items,
      answer: why.answer,
      story,
    },
  }
}

async function lookAtOperation(fleet: Fleet, id: string, style: Style): Promise<View> {
  const answer = await fleet.operation(id)
  return {
    lines: operationLines(answer, style),
    news: operationLines(answer),
    document: answerView(answer),
    isOver: answer.operation.settledAt !== null,
  }
}

async function lookAtExecution(fleet: Fleet, id: string, style: Style): Promise<View> {
  const answer = await fleet.execution(id)
  return {
    lines: executionLines(answer, style),
    news: executionLines(answer),
    document: executionAnswerView(answer),
    isOver: answer.execution.endedAt !== null,
  }
}
