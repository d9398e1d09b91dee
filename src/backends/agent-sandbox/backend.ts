import type { Backend, Call } from '../backend.ts'
import { Agents } from '../kubernetes/agents.ts'
import { type KubernetesOptions, openCluster } from '../kubernetes/cluster.ts'
import { answer, answerInPieces } from '../kubernetes/errors.ts'
import { isElsewhere } from '../kubernetes/names.ts'
import { previewUrl } from '../kubernetes/preview.ts'
import { adopt } from './adopt.ts'
import { discard, listCheckpoints, verify } from './checkpoints.ts'
import { createSandbox } from './create.ts'
import { end } from './end.ts'
import { housingOf, requireInstance } from './instance.ts'
import { findInstances, listInstances } from './lists.ts'
import { look } from './look.ts'
import { resume } from './resume.ts'
import { discover, isUnserved, type Served, unserved } from './served.ts'
import type { Site } from './site.ts'
import { suspend } from './suspend.ts'

const BACKEND = 'agent-sandbox'
/** How long a cluster may take to say what it serves, when a worker starts. */
const DISCOVERY_MS_MAX = 15_000

/**
 * Sandboxes as resources of agent-sandbox (`agents.x-k8s.io`): a controller in the cluster keeps a pod for each, and a volume that
 * outlives it. One that sleeps has the volume and no pod; and where the cluster serves pod snapshots, its memory, too.
 */
export async function openAgentSandboxBackend(options: KubernetesOptions): Promise<Backend> {
  const opened = await openCluster(BACKEND, options)
  let known: { served: Served } | undefined
  const findServed = async (call: Call): Promise<Served> => {
    known ??= { served: await discover((await opened.find(call)).api, call) }
    return known.served
  }
  const keeps = options.pause ?? (await whatIsKept(findServed, opened))
  let agents: Agents | undefined

  const open = async (call: Call): Promise<Site> => {
    const cluster = await opened.find(call)
    const served = await findServed(call)
    agents ??= new Agents(cluster, async (ref, asked) => housingOf(await open(asked), ref, asked))
    return { cluster, served, keeps, agents }
  }
  /** What is not served any more may be served in another version since: the next call asks. */
  const orUnserved = (error: unknown): never => {
    if (!isUnserved(error)) throw error
    known = undefined
    throw unserved(error)
  }
  const at = <T>(what: string, call: Call, work: (site: Site) => Promise<T>) =>
    answer(what, call, async () => work(await open(call)).catch(orUnserved))
  const checkpoints = {
    verify: (ref: string, call: Call) => at('verify a checkpoint', call, (site) => verify(site, ref, call)),
    discard: (ref: string, call: Call) => at('discard a checkpoint', call, (site) => discard(site, ref, call)),
  }

  return {
    name: BACKEND,

    find: (sandboxId, call) => at('find sandboxes', call, (site) => findInstances(site, sandboxId, call)),
    create: (wanted, call) => at('make a sandbox', call, (site) => createSandbox(site, wanted, call)),
    adopt: (ref, owner, call) => at('label a sandbox', call, (site) => adopt(site, ref, owner, call)),
    look: (ref, call) => at('show a sandbox', call, (site) => look(site, ref, call)),
    end: (target, call) => at('end a sandbox', call, (site) => end(site, target, call)),

    run: (target, command, call) => at('run a command', call, (site) => site.agents.run(target, command, call)),
    endLingering: (target, call) => at('end processes', call, (site) => site.agents.endLingering(target, call)),
    previewUrl: (ref, port, call) =>
      at('show a sandbox', call, async (site) => {
        const { pod } = await requireInstance(site, ref, call)
        return pod && previewUrl(site.cluster, pod, port)
      }),

    startAgent: (target, asked, call) => at('start an agent', call, (site) => site.agents.start(target, asked, call)),
    stopAgent: (agent, call) => at('stop an agent', call, (site) => site.agents.stop(agent, call)),
    agentStatus: (agent, call) => at('show an agent', call, (site) => site.agents.status(agent, call)),
    attach: (agent, cursor, call) =>
      answerInPieces('give the output of an agent', call, async function* () {
        try {
          yield* (await open(call)).agents.attach(agent, cursor, call)
        } catch (error) {
          orUnserved(error)
        }
      }),

    lists: {
      place: (call) =>
        at('say which cluster it is', call, async ({ cluster: { home } }) => ({
          name: home.place,
          holds: (ref) => !isElsewhere(home, ref),
        })),
      instances: (cursor, call) => at('list sandboxes', call, (site) => listInstances(site, cursor, call)),
      checkpoints:
        keeps === 'disk'
          ? 'none'
          : (cursor, call) => at('list pod snapshots', call, (site) => listCheckpoints(site, cursor, call)),
    },

    pausing: {
      ...checkpoints,
      preserves: keeps,
      // What is on its volume is the sandbox itself. A snapshot of its memory has a name of its own, and stays.
      consumesCheckpoint: keeps === 'disk',
      needsCheckpoint: true,
      suspend: (target, { key }, call) => at('pause a sandbox', call, (site) => suspend(site, target, key, call)),
      resume: (sleeping, _asked, call) => at('resume a sandbox', call, (site) => resume(site, sleeping, call)),
    },
    snapshots: 'none',
    lease: 'none',

    close: () => opened.close(),
  }
}

/** What a pause keeps is a promise of the backend, so it is known before it is asked for one. */
async function whatIsKept(
  findServed: (call: Call) => Promise<Served>,
  { close }: { close(): Promise<void> },
): Promise<'disk' | 'memory'> {
  try {
    const { podSnapshots } = await findServed({ signal: AbortSignal.timeout(DISCOVERY_MS_MAX) })
    return podSnapshots ? 'memory' : 'disk'
  } catch (cause) {
    await close()
    throw new Error(
      'The cluster did not say what a pause of an agent-sandbox would keep. Set SANDMAN_KUBERNETES_PAUSE to start without asking it.',
      { cause },
    )
  }
}
