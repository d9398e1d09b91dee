import { readdir } from 'node:fs/promises'
import path from 'node:path'
import type { Backend, Call, Found, Owner } from '../backend.ts'
import { askForAgent } from './agent-status.ts'
import { startAgent, stopAgent } from './agents.ts'
import { attach } from './attach.ts'
import { answer, answerInPieces } from './calls.ts'
import { discardCheckpoint, hasCheckpoint, verifyCheckpoint, writeCheckpoint } from './checkpoints.ts'
import { endLingering, runCommand } from './commands.ts'
import { createInstance } from './create.ts'
import { endInstance } from './end.ts'
import { exists, writeJson } from './files.ts'
import { checkpointRefOf, type Home, hasHome, makeHome, refOf, withLock } from './home.ts'
import { findInstance, requireInstance } from './instance.ts'
import { removeLeftovers } from './leftovers.ts'
import { listCheckpoints, listInstances, NOTHING, placeOf } from './lists.ts'
import { lookAt } from './look.ts'
import { resume, suspend } from './pausing.ts'
import { requireRunning } from './targets.ts'

type LocalOptions = {
  /** Where the sandboxes of all fleets are. Created when missing. */
  folder: string
  fleet: string
  /**
   * Without them, processes are stopped by signal, memory is not limited, and nobody knows who was killed for it. Defaults to
   * true.
   */
  cgroups?: boolean
}

/**
 * Real sandboxes on this machine, made of real processes. They isolate nothing: what runs in them may do what the worker may.
 *
 * Each has a folder with its labels and its files, and a supervisor that outlives every worker. All knowledge is in that
 * folder, so that it makes no difference which process asks.
 */
export function openLocalBackend({ folder, fleet, cgroups = true }: LocalOptions): Backend {
  const home = () => makeHome(folder, fleet)
  const changing = <T>(what: string, ref: string, call: Call, work: (home: Home) => Promise<T>) =>
    answer(what, call, async () => {
      const at = await home()
      return withLock(at, ref, call, () => work(at))
    })
  const looking = <T>(what: string, call: Call, work: (home: Home) => Promise<T>) =>
    answer(what, call, async () => work(await home()))

  const listing = <T, N>(what: string, call: Call, work: (home: Home) => Promise<T>, nothing: N) =>
    answer(what, call, async (): Promise<T | N> => ((await hasHome(folder, fleet)) ? work(await home()) : nothing))

  const checkpoints = {
    verify: (ref: string, call: Call) => looking('verify a checkpoint', call, (at) => verifyCheckpoint(at, ref, call)),
    discard: (ref: string, call: Call) => looking('discard a checkpoint', call, (at) => discardCheckpoint(at, ref)),
  }

  return {
    name: 'local',

    find: (sandboxId, call) => looking('find sandboxes', call, (at) => findOwned(at, sandboxId)),
    create: async (wanted, call) =>
      answer('make a sandbox', call, async () => {
        const at = await home()
        return withLock(at, refOf(at, wanted), call, () => createInstance(at, wanted, { cgroups }, call))
      }),
    adopt: (ref, owner, call) => changing('label a sandbox', ref, call, (at) => label(at, ref, owner)),
    look: (ref, call) =>
      looking('look at a sandbox', call, async (at) => {
        const instance = await findInstance(at, ref)
        return instance ? lookAt(instance) : { is: 'absent' as const }
      }),
    end: (target, call) => changing('end a sandbox', target.ref, call, (at) => endInstance(at, target)),

    run: (target, command, call) => looking('run a command', call, (at) => runCommand(at, target, command, call)),
    endLingering: (target, call) => looking('end processes', call, (at) => endLingering(at, target, call)),
    previewUrl: async (_ref, port) => `http://127.0.0.1:${port}`,

    startAgent: (target, asked, call) => looking('start an agent', call, (at) => startAgent(at, target, asked, call)),
    stopAgent: (agent, call) => looking('stop an agent', call, (at) => stopAgent(at, agent, call)),
    agentStatus: (agent, call) => looking('look at an agent', call, (at) => askForAgent(at, agent, call)),
    attach: (agent, cursor, call) =>
      answerInPieces('read the output of an agent', call, async function* () {
        yield* attach(await home(), agent, cursor, call)
      }),

    lists: {
      place: (call) => listing('find the name of its folder', call, async (at) => placeOf(at), undefined),
      instances: (cursor, call) =>
        listing(
          'list sandboxes',
          call,
          async (at) => {
            if (cursor === undefined) await removeLeftovers(at, call).catch(() => {}) // or with the next list
            return listInstances(at, cursor, call)
          },
          NOTHING,
        ),
      checkpoints: (cursor, call) =>
        listing('list checkpoints', call, (at) => listCheckpoints(at, cursor, call), NOTHING),
    },

    pausing: {
      ...checkpoints,
      preserves: 'memory',
      consumesCheckpoint: false,
      needsCheckpoint: false,
      suspend: (target, asked, call) =>
        changing('pause a sandbox', target.ref, call, (at) => suspend(at, target, asked, call)),
      resume: (sleeping, asked, call) =>
        changing('resume a sandbox', sleeping.ref, call, (at) => resume(at, sleeping, asked, call)),
    },
    snapshots: {
      ...checkpoints,
      take: (target, { key, name }, call) =>
        changing('copy a sandbox', target.ref, call, async (at) => {
          const checkpointRef = checkpointRefOf(target.ref, key)
          if (await hasCheckpoint(at, checkpointRef)) return { checkpointRef }
          const instance = await requireInstance(at, target.ref)
          await requireRunning(instance, target)
          return { checkpointRef: await writeCheckpoint(at, instance, key, { takenBy: 'snapshot', name }, call) }
        }),
    },
    lease: 'none',

    close: async () => {},
  }
}

/**
 * By what the labels say: one that was adopted is not called after its owner. A folder that has none stands in nobody's way,
 * unless it is called after the one that is looked for.
 */
async function findOwned(home: Home, sandboxId: string): Promise<Found[]> {
  const found: Found[] = []
  for (const ref of await readdir(home.instances)) {
    if (!ref.includes(sandboxId) && !(await exists(path.join(home.instances, ref, 'instance.json')))) continue
    const instance = await findInstance(home, ref).catch((error: unknown) => {
      if (ref.includes(sandboxId)) throw error
      return undefined // whose labels cannot be read stands in nobody's way
    })
    if (instance?.labels.sandboxId === sandboxId) found.push({ ref, life: instance.labels.life })
  }
  return found
}

async function label(home: Home, ref: string, { sandboxId, life }: Owner): Promise<void> {
  const { folder, labels } = await requireInstance(home, ref)
  await writeJson(path.join(folder, 'instance.json'), { ...labels, sandboxId, life })
}
