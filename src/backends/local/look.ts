import type { Sighting } from '../backend.ts'
import { exists } from './files.ts'
import { findSupervisor, type Instance, type Life, readLife, readStarted } from './instance.ts'
import { canLiveOn, findMembers } from './processes.ts'

/** An instance may be this old before anybody has tried to start its supervisor. After that, nobody will. */
const START_MS_MAX = 30_000

export async function lookAt(instance: Instance): Promise<Exclude<Sighting, { is: 'absent' }>> {
  const life = await readLife(instance)
  if (life.is === 'asleep') {
    const missing = await findMissing(instance, life)
    const broken = missing !== undefined && { broken: `its processes are gone (${missing})` }
    return { is: 'suspended', checkpointRef: life.checkpointRef, ...broken }
  }
  // In this order: a supervisor that becomes ready between the two looks is not missed.
  const supervisor = await findSupervisor(instance)
  const started = await readStarted(instance)
  if (started && supervisor) return { is: 'running', incarnation: life.incarnation }
  if (started) return lost(instance, `the supervisor of ${instance.ref} is gone`)
  if (supervisor) return { is: 'changing', why: 'its supervisor is starting' }
  const wasTried = await exists(instance.supervisorLock)
  if (!wasTried && Date.now() - instance.labels.createdAt < START_MS_MAX) {
    return { is: 'changing', why: 'its supervisor is about to be started' }
  }
  return lost(instance, `${instance.ref} was made, but its supervisor never became ready`)
}

/** Which of the processes that it needs are gone; undefined when it can go on. */
export async function findMissing(instance: Instance, life: Life): Promise<string | undefined> {
  if (!(await findSupervisor(instance))) return 'with their supervisor, as after a restart of this machine'
  const expected = life.is === 'asleep' ? life.frozen : []
  const alive = await Promise.all(expected.map(canLiveOn))
  const gone = expected.filter((_process, at) => !alive[at]).map(({ pid }) => pid)
  return gone.length === 0 ? undefined : `process ${gone.join(', ')}`
}

/** Nobody looks after it any more. What runs in it does not know that, and goes on until it is ended. */
async function lost(instance: Instance, why: string): Promise<Sighting & { is: 'lost' }> {
  const { length } = await findMembers(instance)
  const rest = length === 0 ? '' : `, but ${length} of its processes still ${length === 1 ? 'runs' : 'run'}`
  return { is: 'lost', why: `${why}${rest}` }
}
