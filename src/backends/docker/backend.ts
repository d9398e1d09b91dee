import { type Backend, BackendError, type Call, type Wanted } from '../backend.ts'
import { attachByKey, endLeftovers, run, startByKey, statusOf, stopOne } from './agents.ts'
import { attachOwn } from './attach.ts'
import { discard, takeSnapshot, verify } from './checkpoints.ts'
import { createInstance } from './create.ts'
import { requireCheckpoints } from './dump.ts'
import { endInstance } from './end.ts'
import { type Connection, Engine } from './engine.ts'
import { answer, answerInPieces } from './errors.ts'
import { expired, findInstance, isThere } from './instance.ts'
import { findOwned, listCheckpoints, listInstances, placeOf } from './lists.ts'
import { lookAt } from './look.ts'
import { isContainerId, isOurs, type SleepMode } from './names.ts'
import { resume, suspend } from './pausing.ts'
import { previewUrl } from './preview.ts'
import type { Options } from './recipe.ts'
import { engineName, type Site } from './site.ts'

export type DockerOptions = Options & {
  fleet: string
  /**
   * How a sandbox is put to sleep. `freeze`: it stays in memory. `disk`: its files are kept, and its agent begins anew. `checkpoint`:
   * the engine writes its memory to disk, if it can. Whatever has put it to sleep, it is woken by. Defaults to `freeze`.
   */
  pause?: SleepMode | undefined
  /** Where the engine is, in dockerode's words. Defaults to DOCKER_HOST, or the usual socket. */
  connection?: Connection | undefined
}

/**
 * Containers of a Docker engine. Each sandbox is a container whose main process is its agent, and maybe a second one for what runs
 * beside it. All knowledge is in the engine: in labels, and in the names of containers and images.
 */
export async function openDockerBackend(options: DockerOptions): Promise<Backend> {
  const { fleet, pause = 'freeze' } = options
  const engine = await Engine.open(options.connection)
  let known: Site | undefined
  /**
   * Asked once: the engine behind an address only becomes another one together with everything on it, which `requireSame`
   * notices.
   */
  const find = async (call: Call) => {
    known ??= { engine, home: { fleet, engine: await engineName(engine, call) } }
    return known
  }
  const at = <T>(what: string, call: Call, work: (site: Site) => Promise<T>) =>
    answer(what, call, async () => work(await find(call)))

  const checkpoints = {
    verify: (ref: string, call: Call) => at('verify a checkpoint', call, (site) => verify(site, ref, call)),
    discard: (ref: string, call: Call) => at('discard a checkpoint', call, (site) => discard(site, ref, call)),
  }

  return {
    name: 'docker',

    find: (sandboxId, call) => at('find sandboxes', call, (site) => findOwned(site, sandboxId, call)),
    create: (wanted, call) =>
      at('make a sandbox', call, async (site) => {
        if (pause === 'checkpoint') await requireDumpable(site, wanted, call)
        return createInstance(site, wanted, options, call)
      }),
    adopt: (ref, _owner, call) => at('show a container', call, (site) => requireAdoptable(site, ref, call)),
    look: (ref, call) =>
      at('show a sandbox', call, async (site) => {
        const seen = await lookAt(site, await findInstance(site, ref, call), call)
        if (seen.is === 'absent') await requireSame(site, ref, call)
        return seen
      }),
    end: (target, call) => at('end a sandbox', call, (site) => endInstance(site, target, call)),

    run: (target, command, call) => at('run a command', call, (site) => run(site, target, command, call)),
    endLingering: (target, call) => at('end processes', call, (site) => endLeftovers(site, target, call)),
    previewUrl: (ref, port, call) => at('tell an address', call, (site) => previewUrl(site, ref, port, call)),

    startAgent: (target, asked, call) => at('start an agent', call, (site) => startByKey(site, target, asked, call)),
    stopAgent: (agent, call) => at('stop an agent', call, (site) => stopOne(site, agent, call)),
    agentStatus: (agent, call) => at('show an agent', call, (site) => statusOf(site, agent, call)),
    attach: (agent, cursor, call) =>
      answerInPieces('give the output of an agent', call, async function* () {
        const site = await find(call)
        yield* (agent.key === undefined ? attachOwn : attachByKey)(site, agent, cursor, call)
      }),

    lists: {
      place: (call) =>
        at('say which engine it is', call, async ({ engine }) =>
          placeOf({ engine, home: { fleet, engine: await engineName(engine, call) } }),
        ),
      instances: (cursor, call) => at('list sandboxes', call, (site) => listInstances(site, cursor, call)),
      checkpoints: (cursor, call) => at('list checkpoints', call, (site) => listCheckpoints(site, cursor, call)),
    },

    pausing: {
      ...checkpoints,
      preserves: pause === 'disk' ? 'disk' : 'memory',
      // Whichever way it sleeps, what it sleeps as is the sandbox itself, and is used up by waking it.
      consumesCheckpoint: true,
      needsCheckpoint: pause === 'checkpoint',
      suspend: (target, asked, call) =>
        at('pause a sandbox', call, (site) => suspend(site, pause, target, asked, call)),
      resume: ({ ref }, asked, call) => at('resume a sandbox', call, (site) => resume(site, ref, asked, call)),
    },
    snapshots: {
      ...checkpoints,
      take: (target, asked, call) => at('copy a sandbox', call, (site) => takeSnapshot(site, target, asked, call)),
    },
    lease: 'none',

    close: async () => {},
  }
}

/** There is nothing to be written on it: labels cannot be given to what has been made. */
async function requireAdoptable(site: Site, ref: string, call: Call): Promise<void> {
  if (!isContainerId(ref) && !isOurs(site.home, ref))
    throw new BackendError('spec_invalid', `${JSON.stringify(ref)} is not the whole id of a container, of 64 digits`)
  if (!isThere(await findInstance(site, ref, call))) throw expired(site, ref)
}

/** What could never be put to sleep is not begun. */
async function requireDumpable(site: Site, { spec }: Wanted, call: Call): Promise<void> {
  await requireCheckpoints(site, call)
  if (spec.agent?.sidecar)
    throw new BackendError(
      'spec_invalid',
      'A checkpoint of the engine does not hold a sidecar: pause by freezing, or do without.',
    )
}

/** At the same address another engine may answer since: a machine that was replaced, a disk that is not mounted. */
async function requireSame({ engine, home }: Site, ref: string, call: Call): Promise<void> {
  const now = await engineName(engine, call)
  if (now === home.engine) return
  throw new BackendError(
    'sandbox_unreachable',
    `Another Docker engine (${now}) answers than the one that this worker has begun with (${home.engine}), so nobody can say that there is no ${ref}: restart the worker if that is meant.`,
  )
}
