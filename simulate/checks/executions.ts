import type { Db } from '../../src/db/pool.ts'
import type { ExecutionRow } from '../../src/db/schema.ts'
import { truncationMark } from '../../src/jobs/stream.ts'
import type { SimulatedAgent } from '../provider/agent.ts'
import type { Check, Scene } from './all.ts'
import { untrue } from './reasons.ts'

type Seen = { execution: ExecutionRow; agent: SimulatedAgent | undefined; output: Buffer }

/** Every execution has ended with the reason that its agent had, nothing was started twice, and its output is the agent's. */
export const checkExecutions: Check = async (scene) => {
  const { world, db, found } = scene
  const executions = await db.selectFrom('executions').selectAll().orderBy('id').execute()
  for (const execution of executions) {
    const started = world.cloud.agents.filter(({ agent }) => agent.key === execution.id)
    if (started.length > 1)
      found('no agent is started twice', execution.sandbox_id, `${execution.id} was started ${started.length} times`)
    const own = execution.command === null ? await ownAgent(scene, execution) : started[0]?.agent
    const seen = { execution, agent: own, output: await outputOf(db, execution.id) }
    const lie = await untrue(scene, execution, own)
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
