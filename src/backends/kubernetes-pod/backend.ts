import { type Backend, BackendError, type Call, type Wanted } from '../backend.ts'
import { Agents } from '../kubernetes/agents.ts'
import { type Cluster, type KubernetesOptions, openCluster, requireSame } from '../kubernetes/cluster.ts'
import { deletePod } from '../kubernetes/end.ts'
import { answer, answerInPieces, isAbsent } from '../kubernetes/errors.ts'
import { ANNOTATION, labelsOf } from '../kubernetes/labels.ts'
import { isElsewhere, nameIn, nameOf, refOf } from '../kubernetes/names.ts'
import { makeOnce } from '../kubernetes/objects.ts'
import type { Pod } from '../kubernetes/pod.ts'
import { expired, findOwned, findPod, listPods, podsPath, requireOwn } from '../kubernetes/pods.ts'
import { previewUrl } from '../kubernetes/preview.ts'
import { podSpecOf, WORKSPACE_VOLUME } from '../kubernetes/recipe.ts'
import { whenBegun } from '../kubernetes/start.ts'
import { requireEndable, sightingOf } from '../kubernetes/targets.ts'
import { hasSidecars } from '../kubernetes/version.ts'

const BACKEND = 'kubernetes-pod'

/**
 * Sandboxes as bare pods: the agent in a container of its own, and what serves it tools beside it. A pod cannot sleep, so there is no
 * pause to be asked for. All knowledge is in the cluster, so that it makes no difference which worker asks.
 */
export async function openPodBackend(options: KubernetesOptions): Promise<Backend> {
  const opened = await openCluster(BACKEND, options)
  let agents: Agents | undefined
  const at = <T>(what: string, call: Call, work: (cluster: Cluster) => Promise<T>) =>
    answer(what, call, async () => work(await opened.find(call)))
  const among = (cluster: Cluster) => {
    agents ??= new Agents(cluster, async (ref, call) => ({
      pod: await requirePod(cluster, ref, call),
      own: 'main process',
    }))
    return agents
  }

  return {
    name: BACKEND,

    find: (sandboxId, call) =>
      at('find pods', call, (cluster) =>
        findOwned(cluster, podsPath(cluster.home), { backend: BACKEND, sandboxId }, call),
      ),
    create: (wanted, call) => at('make a pod', call, (cluster) => createPod(cluster, wanted, call)),
    adopt: (ref, owner, call) =>
      at('label a pod', call, async (cluster) => {
        const { home, api } = cluster
        const pod = await requirePod(cluster, ref, call)
        const path = `${podsPath(home)}/${pod.name}`
        const annotations = { [ANNOTATION.ref]: ref }
        const metadata = { resourceVersion: pod.version, labels: labelsOf(home, owner, BACKEND), annotations }
        await api.json({ method: 'PATCH', path, body: { metadata }, as: 'merge-patch' }, call)
      }),
    look: (ref, call) =>
      at('show a pod', call, async (cluster) => {
        const pod = await lookFor(cluster, ref, call)
        return pod ? sightingOf(pod) : { is: 'absent' }
      }),
    end: (target, call) =>
      at('delete a pod', call, async (cluster) => {
        const pod = await lookFor(cluster, target.ref, call)
        if (!pod) return
        requireEndable(pod, target)
        await deletePod(cluster, pod, target.ref, call)
      }),

    run: (target, command, call) => at('run a command', call, (cluster) => among(cluster).run(target, command, call)),
    endLingering: (target, call) => at('end processes', call, (cluster) => among(cluster).endLingering(target, call)),
    previewUrl: (ref, port, call) =>
      at('show a pod', call, async (cluster) => previewUrl(cluster, await requirePod(cluster, ref, call), port)),

    startAgent: (target, asked, call) =>
      at('start an agent', call, (cluster) => among(cluster).start(target, asked, call)),
    stopAgent: (agent, call) => at('stop an agent', call, (cluster) => among(cluster).stop(agent, call)),
    agentStatus: (agent, call) => at('show an agent', call, (cluster) => among(cluster).status(agent, call)),
    attach: (agent, cursor, call) =>
      answerInPieces('give the output of an agent', call, async function* () {
        yield* among(await opened.find(call)).attach(agent, cursor, call)
      }),

    lists: {
      place: (call) =>
        at('say which cluster it is', call, async ({ home }) => ({
          name: home.place,
          holds: (ref) => !isElsewhere(home, ref),
        })),
      instances: (cursor, call) => at('list pods', call, (cluster) => listPods(cluster, cursor, call)),
      checkpoints: 'none',
    },

    pausing: 'none',
    snapshots: 'none',
    lease: 'none',

    close: () => opened.close(),
  }
}

/** Undefined when there is none, in the very cluster that it was in; fails for what is not this fleet's. */
async function lookFor(cluster: Cluster, ref: string, call: Call): Promise<Pod | undefined> {
  const pod = await findPod(cluster, nameIn(cluster.home, ref), call)
  if (pod) requireOwn(cluster.home, pod, ref)
  else await requireSame(cluster, ref, call)
  return pod
}

async function requirePod(cluster: Cluster, ref: string, call: Call): Promise<Pod> {
  const pod = await lookFor(cluster, ref, call)
  if (pod) return pod
  throw expired(cluster.home, ref)
}

/**
 * Makes a pod, and waits until it has begun.
 *
 * Killed half-way: there is a pod or there is none, and whoever asks again finds that out.
 */
async function createPod(cluster: Cluster, wanted: Wanted, call: Call): Promise<{ ref: string }> {
  const { api, home, options } = cluster
  if (wanted.checkpointRef !== undefined)
    throw new BackendError('spec_invalid', `A bare pod cannot begin as ${wanted.checkpointRef}: it has no checkpoints`)
  const name = nameOf(home, wanted)
  const ref = refOf(home, name)
  const needs = {
    hasSidecars: wanted.spec.agent?.sidecar !== undefined && (await hasSidecars(api, call)),
    workspace: { name: WORKSPACE_VOLUME, emptyDir: {} },
  }
  const body = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: {
      name,
      labels: labelsOf(home, wanted, BACKEND),
      annotations: { [ANNOTATION.agent]: wanted.spec.agent ? 'own' : 'none' },
    },
    spec: podSpecOf(wanted, options, needs),
  }
  const find = () => lookFor(cluster, ref, call)
  await makeOnce(api, { path: podsPath(home), body }, { ref, life: wanted.life, find }, call).catch(
    (error: unknown) => {
      throw isAbsent(error, home.namespace) ? noNamespace(home.namespace) : error
    },
  )
  await whenBegun(cluster, ref, call, { find, remove: (pod) => deletePod(cluster, pod, ref, call) })
  return { ref }
}

function noNamespace(namespace: string): BackendError {
  return new BackendError('spec_invalid', `The cluster has no namespace ${namespace}: make it, or name another one.`)
}
