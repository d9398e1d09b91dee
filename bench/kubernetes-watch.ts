import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { Agents, followedAs } from '../src/backends/kubernetes/agents.ts'
import { openCluster } from '../src/backends/kubernetes/cluster.ts'
import { labelsOf } from '../src/backends/kubernetes/labels.ts'
import { refOf } from '../src/backends/kubernetes/names.ts'
import { findPod } from '../src/backends/kubernetes/pods.ts'
import { PATIENCE } from '../src/jobs/patience.ts'
import { FakeKubernetes } from '../test/support/kubernetes/server.ts'
import { inParallel } from './in-parallel.ts'
import type { Bench, Result } from './section.ts'
import { rounded } from './statistics.ts'

const { quietMs } = PATIENCE
const MS_A_MINUTE = 60_000
/** As many at once as a pool of connections makes sense for. */
const AT_ONCE = 50

/**
 * What agents that run, are followed and say nothing cost the API server of a cluster, with the watch of pods and without it. Each
 * is asked for its status as often as who follows it asks. The logs that are followed are one open request each, and not counted.
 */
export async function kubernetesWatch({ sizes }: Pick<Bench, 'sizes'>): Promise<Result> {
  const { pods, minutes } = sizes.kubernetesWatch
  const kubernetes = await FakeKubernetes.start()
  const { namespace, requests } = kubernetes
  const opened = await openCluster('kubernetes-pod', { fleet: 'bench', namespace, connection: kubernetes.connect() })
  try {
    const cluster = await opened.find(call())
    const { home, watch, followed } = cluster
    const agents = new Agents(cluster, async (ref, asked) => {
      const pod = await findPod(cluster, ref.slice(ref.lastIndexOf('/') + 1), asked)
      return pod && { pod, own: 'main process' }
    })
    kubernetes.seed(pods, (n) =>
      podOf(n, labelsOf(home, { sandboxId: newId('sbx'), life: newId('op') }, 'kubernetes-pod')),
    )
    const all = kubernetes.list('pods').map(({ metadata: { name, uid } }) => ({
      name,
      agent: { ref: refOf(home, name), incarnation: uid, key: undefined },
    }))
    const askAll = () =>
      inParallel(all, AT_ONCE, async ({ agent }) => {
        const { is } = await agents.status(agent, call())
        if (is !== 'running') throw new Error(`${agent.ref} is ${is}`)
      })

    requests.clear()
    const beforeMb = heapMb()
    watch.get('')
    while (watch.get(all.at(-1)?.name ?? '') === undefined) await sleep(20, undefined, call())
    const lists = requests.count('list', 'pods')
    requests.clear()
    const watch_mb = rounded(heapMb() - beforeMb)

    for (const { name, agent } of all) followed.set(followedAs(agent), { name, readers: 1 })
    for (const until = Date.now() + minutes * MS_A_MINUTE; Date.now() < until; ) {
      await askAll()
      await sleep(Math.max(0, Math.min(quietMs, until - Date.now())))
    }
    const with_watch = rounded(requests.length / minutes)

    // Who is not followed here is asked for at the API server.
    followed.clear()
    requests.clear()
    await askAll()
    const without_watch = requests.count('get', 'pods') * (MS_A_MINUTE / quietMs)
    const ratio = rounded(with_watch / without_watch)
    return {
      json: { pods, lists_once: lists, requests_a_minute: { with_watch, without_watch, ratio }, watch_mb },
      rows: [
        {
          figure: `requests for ${pods.toLocaleString('en')} silent agents`,
          value: with_watch,
          unit: '/min',
          limit: without_watch,
          note: `without the watch, which lists ${lists} pages once`,
          ratio,
        },
        { figure: 'memory of the watch', value: watch_mb, unit: 'MB' },
      ],
    }
  } finally {
    await opened.close()
    await kubernetes.stop()
  }
}

function podOf(n: number, labels: Record<string, string>) {
  return {
    metadata: {
      name: `sandman-0123abcd-op-${String(n).padStart(26, '0')}`,
      labels,
      annotations: { 'sandman.agent': 'own' },
    },
    spec: {
      restartPolicy: 'Never',
      containers: [
        { name: 'agent', image: 'sandman-test' },
        { name: 'tool-server', image: 'sandman-test' },
      ],
    },
  }
}

function call(): { signal: AbortSignal } {
  return { signal: AbortSignal.timeout(MS_A_MINUTE) }
}

function newId(prefix: string): string {
  return `${prefix}_${randomBytes(13).toString('hex')}`
}

/** Of what is needed: what is not is collected first. */
function heapMb(): number {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  collect()
  collect()
  return process.memoryUsage().heapUsed / 2 ** 20
}
