import type { Db } from '../../src/db/pool.ts'
import type { ExecutionRow } from '../../src/db/schema.ts'
import { truncationMark } from '../../src/jobs/stream.ts'
import type { SimulatedAgent } from '../provider/agent.ts'
import type { Check, Scene } from './all.ts'

type Seen = { execution: ExecutionRow; agent: SimulatedAgent | undefined; output: Buffer; scene: Scene }

/** Every execution has ended with the reason that its agent had, nothing was started twice, and its output is the agent's. */
export const checkExecutions: Check = async (scene) => {
  const { world, db, found } = scene
  const executions = await db.selectFrom('executions').selectAll().orderBy('id').execute()
  for (const execution of executions) {
    const started = world.cloud.agents.filter(({ agent }) => agent.key === execution.id)
    if (started.length > 1)
      found('no agent is started twice', execution.sandbox_id, `${execution.id} was started ${started.length} times`)
    const own = execution.command === null ? await ownAgent(scene, execution) : started[0]?.agent
    const seen = { execution, agent: own, output: await outputOf(db, execution.id), scene }
    const lie = untrue(seen)
    if (lie) {
      const { id, sandbox_id, status, reason, message } = execution
      found(
        'an execution ended as it says',
        sandbox_id,
        `${id} is ${status}: ${reason} (${message ?? 'no message'}), but ${lie}`,
      )
    }
    const flaw = flawOf(seen)
    if (flaw) found('the output is what the agent wrote', execution.sandbox_id, `${execution.id}: ${flaw}`)
  }
}

/** The agent that its sandbox was made with, in the incarnation that was followed. */
async function ownAgent({ world, db }: Scene, execution: ExecutionRow): Promise<SimulatedAgent | undefined> {
  const { id, incarnation } = execution
  if (incarnation === null) return undefined
  const begun = await db
    .selectFrom('events')
    .selectAll()
    .where('execution_id', '=', id)
    .where('type', '=', 'execution_started')
    .executeTakeFirst()
  const at = begun?.at.getTime() ?? 0
  const { cloud } = world
  const there = [...cloud.instances.values(), ...cloud.ended.filter(({ endedAtMs }) => endedAtMs >= at)]
  const refs = there
    .filter(({ sandboxId, madeAtMs }) => sandboxId === execution.sandbox_id && madeAtMs <= at)
    .map(({ ref }) => ref)
  return cloud.agents
    .filter(({ agent, ref }) => agent.key === '' && refs.includes(ref) && agent.startedAtMs <= at)
    .at(-1)?.agent
}

async function outputOf(db: Db, id: string): Promise<Buffer> {
  const pieces = await db
    .selectFrom('output')
    .select('bytes')
    .where('execution_id', '=', id)
    .orderBy('from_byte')
    .execute()
  return Buffer.concat(pieces.map(({ bytes }) => bytes))
}

/** What is not true of how it is said to have ended. */
function untrue({ execution, agent, scene }: Seen): string | undefined {
  const { status, reason, exit_code, id, hard_deadline_at, silence_ms, ended_at, message } = execution
  const end = agent?.end
  const how = end
    ? `its agent ended by ${end.by} with ${end.exitCode ?? end.signal}`
    : agent
      ? 'its agent has not ended'
      : 'it had no agent'
  switch (reason) {
    case 'completed':
      return end?.exitCode === 0 ? undefined : how
    case 'oom_killed':
      return end?.oomKilled ? undefined : how
    case 'signal':
      return end?.signal ? undefined : how
    case 'error':
      if (exit_code === null) return undefined
      return end?.exitCode === exit_code ? undefined : how
    case 'deadline_exceeded':
      return silence_ms !== null || (hard_deadline_at !== null && (ended_at as Date) >= hard_deadline_at)
        ? undefined
        : 'its deadline had not passed'
    case 'cancelled':
      return scene.told.cancelled.has(id) ||
        message?.startsWith('Its sandbox') ||
        status !== 'cancelled' ||
        execution.cancel_requested_at !== null
        ? undefined
        : 'nobody has asked for that'
    default:
      return undefined
  }
}

/** Of these, all of the output was read, unless the message says that it could not be. */
const WHOLE = ['completed', 'error', 'oom_killed', 'signal']

function flawOf({ execution, agent, output }: Seen): string | undefined {
  const { truncated, output_bytes, output_bytes_max: max, reason, message } = execution
  if (output.length !== output_bytes) return `${output_bytes} bytes are counted, and ${output.length} kept`
  if (!agent) return output.length === 0 ? undefined : 'there is output, and there was no agent'
  const mark = truncated ? Buffer.from(truncationMark(max)) : Buffer.alloc(0)
  const kept = output.subarray(0, output.length - mark.length)
  if (!output.subarray(kept.length).equals(mark)) return 'it does not end with the mark of what was cut off'
  if (truncated && kept.length !== max) return `${kept.length} bytes are kept of ${max}`
  if (!agent.bytes.subarray(0, kept.length).equals(kept)) return 'it is not what the agent wrote'
  const mayBeCut = truncated || message?.includes('could not be read') || !WHOLE.includes(reason ?? '') || !agent.end
  return mayBeCut || kept.length === agent.bytes.length
    ? undefined
    : `${kept.length} of ${agent.bytes.length} bytes were kept`
}
