import type { OperationRow } from '../src/db/schema.ts'
import { LastUser, NotDone } from './last-user.ts'
import { Life } from './life.ts'
import { ORDERLY } from './provider/backend.ts'
import type { Told } from './told.ts'
import type { World } from './world.ts'

const RULE = 'what nothing stands in the way of is done'
const STEP_MS = 1_000
/** All of it at once, and none of it waits for as long. */
const EPILOGUE_MS_MAX = 1_800_000

const LONG = { idleMs: 3_600_000 }
const BRIEFLY_IDLE = { idleMs: 10_000, ifUnsupported: 'kill' } as const
const SHORT_LIVED = { ...LONG, hardMs: 15_000 }

/**
 * Everything has come to rest, and nothing goes wrong any more. A last user asks for each thing once, on every backend, and looks at
 * the provider in the moment of the answer: what then is not as it says was never done, whatever a sweeper would make of it later.
 * Without this, a fleet that refuses or breaks everything would be one in which nothing is lost.
 */
export async function epilogue({ world, told }: { world: World; told: Told }): Promise<void> {
  const { engine, findings, abilities } = world
  const stories = abilities.flatMap((each) => STORIES.map((tell) => ({ tell, each })))
  let left = stories.length
  for (const { tell, each } of stories) {
    void new Life(`last user of ${each.name}`).do(async () => {
      const user = new LastUser(world, told, each)
      try {
        await tell(user, world)
      } catch (error) {
        const why = error instanceof NotDone ? error.message : String((error as Error).stack)
        findings.add(RULE, user.sandboxId || each.name, `${tell.name} at ${each.name}: ${why}`)
      }
      left--
    })
  }
  const untilMs = engine.nowMs + EPILOGUE_MS_MAX
  while (left > 0 && engine.nowMs < untilMs) await engine.runUntil(engine.nowMs + STEP_MS, () => left === 0)
  if (left > 0) findings.add(RULE, 'the last user', `${left} of ${stories.length} stories have not come to their end`)
}

type Story = (user: LastUser, world: World) => Promise<void>

const STORIES: readonly Story[] = [use, end, idle, outlive]

async function use(user: LastUser, world: World): Promise<void> {
  await begin(user, LONG)
  await work(user, world)
  await sleepAndWake(user, world)
  await copy(user, world)
  await destroy(user, world)
}

async function end(user: LastUser): Promise<void> {
  await begin(user, LONG)
  const answer = await user.ask('kill')
  user.require(user.instances.length === 0, 'a kill leaves no instance', user.instances.map(briefly))
  user.require(isDone(answer), 'a kill is done', told(answer))
}

/** The reaper pauses it, or ends what cannot be paused. */
async function idle(user: LastUser, world: World): Promise<void> {
  await begin(user, BRIEFLY_IDLE)
  const state = await user.untilLeft('running', ['suspended', 'gone'])
  if (user.abilities.pausing === 'none') {
    user.require(state === 'gone', 'one that idles and cannot be paused is ended', state)
    return leavesNothing(user, world, 'its end')
  }
  user.require(state === 'suspended', 'one that idles is suspended', state)
  sleeps(user, world)
  await destroy(user, world)
}

/** The reaper destroys it. */
async function outlive(user: LastUser, world: World): Promise<void> {
  await begin(user, SHORT_LIVED)
  await user.untilLeft('running', ['gone'])
  leavesNothing(user, world, 'a hard limit')
}

async function begin(user: LastUser, ttl: Parameters<LastUser['spawn']>[0]): Promise<void> {
  const answer = await user.spawn(ttl)
  runs(user, 'a spawn')
  user.require(isDone(answer), 'a spawn is done', told(answer))
}

async function work(user: LastUser, { cloud }: World): Promise<void> {
  const { id, status, reason, message, output_bytes } = await user.execute([ORDERLY])
  const agent = cloud.agents.find((started) => started.agent.key === id)?.agent
  user.require(agent?.end?.exitCode === 0, 'an agent is started, and left to its end', agent?.end)
  user.require(reason === 'completed' && status === 'succeeded', 'an execution succeeds', { status, reason, message })
  const written = agent?.bytes.length
  user.require(output_bytes === written, 'all of the output is kept', `${output_bytes} of ${written} bytes`)
}

async function sleepAndWake(user: LastUser, world: World): Promise<void> {
  const paused = await user.ask('pause')
  if (user.abilities.pausing === 'none') {
    user.require(paused.error?.error_type === 'pause_unsupported', 'a pause is refused', told(paused))
    return runs(user, 'a pause that was refused')
  }
  const ref = sleeps(user, world)
  const kept = await user.checkpoint(paused.checkpoint_id)
  user.require(isDone(paused) && kept?.provider_ref === ref, `a pause names ${ref}`, { ...told(paused), kept })
  const resumed = await user.ask('resume')
  runs(user, 'a resume')
  user.require(isDone(resumed), 'a resume is done', told(resumed))
}

async function copy(user: LastUser, { cloud }: World): Promise<void> {
  const taken = await user.ask('snapshot')
  runs(user, 'a snapshot')
  if (!user.abilities.canSnapshot)
    return user.require(taken.error?.error_type === 'snapshot_unsupported', 'a snapshot is refused', told(taken))
  const whole = [...cloud.checkpoints.values()].filter(
    ({ sandboxId, kind, condition }) => sandboxId === user.sandboxId && kind === 'snapshot' && condition === 'ready',
  )
  const kept = await user.checkpoint(taken.checkpoint_id)
  const isThere = whole.some(({ ref }) => ref === kept?.provider_ref)
  user.require(isDone(taken) && isThere, 'a snapshot names what is whole at its provider', { ...told(taken), kept })
}

async function destroy(user: LastUser, world: World): Promise<void> {
  const answer = await user.ask('destroy')
  leavesNothing(user, world, 'a destroy')
  user.require(isDone(answer), 'a destroy is done', told(answer))
}

function runs(user: LastUser, after: string): void {
  const { instances } = user
  const isRight = instances.length === 1 && instances[0]?.state === 'running'
  user.require(isRight, `after ${after} one instance runs`, instances.map(briefly))
}

/** What it sleeps on. */
function sleeps(user: LastUser, { cloud }: World): string {
  const { instances } = user
  const [instance] = instances
  const isAsleep = instances.length === 1 && instance?.state === 'suspended' && !instance.isPausing
  user.require(isAsleep, 'one instance is asleep', instances.map(briefly))
  const ref = instance?.checkpointRef ?? ''
  const condition = cloud.checkpoints.get(ref)?.condition
  user.require(condition === 'ready', `${ref || 'its checkpoint'} is whole`, condition ?? 'it is not there')
  return ref
}

function leavesNothing(user: LastUser, { cloud }: World, after: string): void {
  const { instances, sandboxId } = user
  user.require(instances.length === 0, `${after} leaves no instance`, instances.map(briefly))
  const kept = [...cloud.checkpoints.values()].filter((checkpoint) => checkpoint.sandboxId === sandboxId)
  user.require(kept.length === 0, `${after} leaves no checkpoint`, kept)
}

function isDone({ status, outcome }: OperationRow): boolean {
  return status === 'succeeded' && outcome === 'done'
}

function told({ kind, status, outcome, error }: OperationRow) {
  return { kind, status, outcome, error }
}

function briefly({ ref, state, isEnding }: LastUser['instances'][number]) {
  return { ref, state, isEnding }
}
