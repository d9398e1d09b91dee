import type { ExecutionRow } from '../../src/db/schema.ts'
import type { ExecutionReason } from '../../src/sandbox/executions.ts'
import type { SimulatedAgent } from '../provider/agent.ts'
import type { Fall } from '../provider/cloud.ts'
import type { Scene } from './all.ts'

/** The database writes whole milliseconds, and the world has parts of them. */
const ROUNDED_MS = 1

type Case = { scene: Scene; execution: ExecutionRow; agent: SimulatedAgent | undefined; endedAtMs: number }

/** What is not true of how an execution is said to have ended; undefined if that is the reason which it really had. */
export async function untrue(
  scene: Scene,
  execution: ExecutionRow,
  agent: SimulatedAgent | undefined,
): Promise<string | undefined> {
  const { reason, ended_at } = execution
  if (reason === null || ended_at === null) return undefined // somebody else says that it has not ended
  const said = { scene, execution, agent, endedAtMs: ended_at.getTime() + ROUNDED_MS }
  if (await TRUTHS[reason](said)) return undefined
  const end = agent?.end
  const how = end
    ? `its agent ended by ${end.by} with ${end.exitCode ?? end.signal}`
    : agent
      ? 'its agent has not ended'
      : 'it had no agent'
  return `${how}, and ${WITHOUT[reason]}`
}

const TRUTHS: Record<ExecutionReason, (said: Case) => boolean | Promise<boolean>> = {
  completed: ({ agent, execution }) => agent?.end?.exitCode === 0 && execution.status === 'succeeded',
  oom_killed: ({ agent }) => agent?.end?.oomKilled === true,
  signal: ({ agent }) => typeof agent?.end?.signal === 'string',
  error: (said) => {
    const { agent, execution } = said
    if (execution.exit_code !== null && execution.exit_code !== 0) return agent?.end?.exitCode === execution.exit_code
    // It was never started, or nobody can say how it ended.
    return agent === undefined || falls(said).some(({ how }) => how === 'lost')
  },
  agent_restarted: (said) => {
    const { execution, scene, endedAtMs } = said
    return (
      falls(said).some(({ how, ref }) => {
        const now = scene.world.cloud.instances.get(ref) ?? scene.world.cloud.ended.find((each) => each.ref === ref)
        // What fell asleep, or was put there, has been woken since.
        return how === 'restarted' || (now !== undefined && now.incarnation > Number(execution.incarnation))
      }) || isAnother(said, endedAtMs)
    )
  },
  instance_lost: async (said) => {
    const { execution, agent } = said
    if (execution.incarnation !== null && agent !== undefined) return falls(said).length > 0
    return execution.incarnation === null ? wasAway(said) : true
  },
  stream_lost: ({ scene, agent, endedAtMs }) =>
    scene.world.cloud.breaks.some((each) => each.agent === agent && each.atMs <= endedAtMs),
  deadline_exceeded: ({ execution, endedAtMs }) => {
    const { hard_deadline_at, silence_ms, stop_reason, stop_asked_at, last_output_at, started_at } = execution
    if (hard_deadline_at !== null && endedAtMs >= hard_deadline_at.getTime()) return true
    const heardAt = last_output_at ?? started_at
    if (silence_ms === null || stop_reason !== 'silence' || stop_asked_at === null || heardAt === null) return false
    // Of what its agent wrote after it was asked to stop, some may have been read.
    return heardAt > stop_asked_at || stop_asked_at.getTime() + ROUNDED_MS - heardAt.getTime() >= silence_ms
  },
  cancelled: async ({ scene, execution, endedAtMs }) => {
    if (execution.status !== 'cancelled') return false
    if (scene.told.cancelled.has(execution.id)) return true
    const asked = await scene.db
      .selectFrom('operations')
      .select('id')
      .where('sandbox_id', '=', execution.sandbox_id)
      .where('kind', 'in', ['pause', 'kill', 'destroy'])
      .where('created_at', '<=', new Date(endedAtMs))
      .where((is) => is.or([is('settled_at', 'is', null), is('settled_at', '>=', execution.created_at)]))
      .execute()
    return asked.length > 0
  },
}

const WITHOUT: Record<ExecutionReason, string> = {
  completed: 'did not end with 0',
  oom_killed: 'did not use too much memory',
  signal: 'got no signal',
  error: 'did not end so',
  agent_restarted: 'was not started anew',
  instance_lost: 'its instance ran on',
  stream_lost: 'its output never broke',
  deadline_exceeded: 'it was neither late nor silent for so long',
  cancelled: 'nobody has asked for that',
}

/** When the incarnation that it ran in has ceased to run, since it was asked for. An adopted instance may be labelled with another's id. */
function falls({ scene, execution, agent, endedAtMs }: Case): Fall[] {
  const { cloud } = scene.world
  const ran = cloud.agents.find((each) => each.agent === agent)
  return cloud.falls.filter(
    ({ sandboxId, ref, incarnation, atMs }) =>
      (sandboxId === execution.sandbox_id || ref === ran?.ref) &&
      String(incarnation) === execution.incarnation &&
      atMs <= endedAtMs &&
      atMs >= execution.created_at.getTime() - ROUNDED_MS,
  )
}

/** Another instance was made for its sandbox while it ran. */
function isAnother({ scene, execution }: Case, endedAtMs: number): boolean {
  const { instances, ended } = scene.world.cloud
  return [...instances.values(), ...ended].some(
    ({ sandboxId, madeAtMs }) =>
      sandboxId === execution.sandbox_id &&
      madeAtMs <= endedAtMs &&
      madeAtMs >= (execution.started_at ?? execution.created_at).getTime() - ROUNDED_MS,
  )
}

/** It never began, because its sandbox rested elsewhere between its request and its end. */
async function wasAway({ scene, execution, endedAtMs }: Case): Promise<boolean> {
  const away = await scene.db
    .selectFrom('events')
    .select('id')
    .where('sandbox_id', '=', execution.sandbox_id)
    .where('to_state', 'in', ['gone', 'suspended'])
    .where('at', '<=', new Date(endedAtMs))
    .executeTakeFirst()
  return away !== undefined || scene.world.cloud.falls.some(({ sandboxId }) => sandboxId === execution.sandbox_id)
}
