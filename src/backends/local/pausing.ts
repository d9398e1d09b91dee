import { BackendError, type Call, type Target, type Waking } from '../backend.ts'
import { settleAgents } from './agents.ts'
import { discardCheckpoint, requireCheckpoint, writeCheckpoint } from './checkpoints.ts'
import { writeJson } from './files.ts'
import { freeze, thaw } from './freeze.ts'
import { checkpointRefOf, type Home } from './home.ts'
import { type Instance, type Life, lifeFile, readLife, readStarted, requireInstance } from './instance.ts'
import { findMissing, lookAt } from './look.ts'
import { canLiveOn } from './processes.ts'
import { requireRunning } from './targets.ts'

/**
 * Freezes it, writes a checkpoint of what it then has, and only then says that it sleeps.
 *
 * Asked twice: the second finds it asleep.
 * Killed half-way: its processes may stay frozen, which its life says (`held`); it counts as running, so the next attempt does
 * all of it again, and a resume thaws it.
 * A checkpoint that cannot be written: it is thawed, and goes on as if nothing had been asked. The same when not even the
 * beginning can be written down, because an earlier attempt may have left it frozen.
 */
export async function suspend(
  home: Home,
  target: Target,
  { key }: { key: string },
  call: Call,
): Promise<{ checkpointRef: string }> {
  const instance = await requireInstance(home, target.ref)
  const life = await readLife(instance)
  if (life.is === 'asleep') return { checkpointRef: life.checkpointRef }
  const incarnation = await requireRunning(instance, target)
  await settleAgents(instance, call)
  try {
    await setLife(instance, { is: 'awake', incarnation, held: key })
    await freeze(instance, call)
    const checkpointRef = await writeCheckpoint(home, instance, key, { takenBy: 'pause' }, call)
    await setLife(instance, { is: 'asleep', checkpointRef, frozen: await findLivingParts(instance) })
    return { checkpointRef }
  } catch (error) {
    // If this fails, too, the first failure is still what is told, and `held` makes the next attempt wake it again.
    await wake(instance, incarnation).catch(() => {})
    await discardCheckpoint(home, checkpointRefOf(instance.ref, key)).catch(() => {})
    throw error
  }
}

/**
 * Thaws it as a new incarnation. Its frozen processes are what it is, and the checkpoint is only a copy of its files: as long
 * as they are alive, it does not matter what has become of that. Once they are gone, so is what it had in memory, and the copy
 * is looked at to say what is left.
 *
 * Killed half-way: it counts as awake, and the next attempt thaws it.
 */
export async function resume(
  home: Home,
  { ref, checkpointRef }: { ref: string; checkpointRef: string | undefined },
  { key }: Waking,
  call: Call,
): Promise<void> {
  const instance = await requireInstance(home, ref)
  const life = await readLife(instance)
  const sighting = await lookAt(instance)
  if (sighting.is === 'changing')
    throw new BackendError('sandbox_unreachable', `${instance.ref} is not ready: ${sighting.why}`)
  const missing = await findMissing(instance, life)
  if (missing !== undefined) {
    const copy = life.is === 'asleep' ? (checkpointRef ?? life.checkpointRef) : undefined
    if (copy !== undefined) await requireCheckpoint(home, copy, call)
    throw new BackendError(
      'checkpoint_missing',
      `The processes of ${ref} are gone (${missing}), and with them what it had in memory. Its files are ${copy === undefined ? 'still there' : `whole in checkpoint ${copy}`}.`,
    )
  }
  if (life.is === 'awake' && life.held === undefined) return
  // One that was only about to sleep is still the one that it was.
  const incarnation = life.is === 'awake' ? life.incarnation : key
  await setLife(instance, { is: 'awake', incarnation, held: key })
  await wake(instance, incarnation)
}

async function wake(instance: Instance, incarnation: string): Promise<void> {
  await thaw(instance)
  await setLife(instance, { is: 'awake', incarnation })
}

async function findLivingParts(instance: Instance) {
  const started = await readStarted(instance)
  const parts = [started?.agent, started?.sidecar].filter((part) => part !== undefined)
  const alive = await Promise.all(parts.map(canLiveOn))
  return parts.filter((_part, at) => alive[at])
}

function setLife(instance: Instance, life: Life): Promise<void> {
  return writeJson(lifeFile(instance.folder), life)
}
