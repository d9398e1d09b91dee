/**
 * What ten thousand agents that run, are followed and say nothing cost the API server of a cluster, with the watch of pods and
 * without it. Each is asked for its status as often as who follows it asks: `node bench/kubernetes-watch.ts [pods] [minutes]`.
 */
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

const [pods = 10_000, minutes = 2] = process.argv.slice(2).map(Number)
const { quietMs } = PATIENCE
const MS_A_MINUTE = 60_000
/** As many at once as a pool of connections makes sense for. */
const AT_ONCE = 50

setFlagsFromString('--expose-gc')
const collect = runInNewContext('gc') as () => void
const heapMb = () => {
  collect()
  collect()
  return process.memoryUsage().heapUsed / 2 ** 20
}
const call = () => ({ signal: AbortSignal.timeout(60_000) })
const newId = (prefix: string) => `${prefix}_${randomBytes(13).toString('hex')}`

const kubernetes = await FakeKubernetes.start()
const { namespace, requests } = kubernetes
const opened = await openCluster('kubernetes-pod', { fleet: 'bench', namespace, connection: kubernetes.connect() })
const cluster = await opened.find(call())
const { home, watch, followed } = cluster
const agents = new Agents(cluster, async (ref, asked) => {
  const pod = await findPod(cluster, ref.slice(ref.lastIndexOf('/') + 1), asked)
  return pod && { pod, own: 'main process' }
})
kubernetes.seed(pods, (n) => ({
  metadata: {
    name: `sandman-0123abcd-op-${String(n).padStart(26, '0')}`,
    labels: labelsOf(home, { sandboxId: newId('sbx'), life: newId('op') }, 'kubernetes-pod'),
    annotations: { 'sandman.agent': 'own' },
  },
  spec: {
    restartPolicy: 'Never',
    containers: [
      { name: 'agent', image: 'sandman-test' },
      { name: 'tool-server', image: 'sandman-test' },
    ],
  },
}))
const all = kubernetes.list('pods').map(({ metadata: { name, uid } }) => ({
  name,
  agent: { ref: refOf(home, name), incarnation: uid, key: undefined },
}))

async function askAll(): Promise<void> {
  const left = all[Symbol.iterator]()
  const ask = async () => {
    for (const { agent } of left) {
      const { is } = await agents.status(agent, call())
      if (is !== 'running') throw new Error(`${agent.ref} is ${is}`)
    }
  }
  await Promise.all(Array.from({ length: AT_ONCE }, ask))
}

requests.clear()
const beforeMb = heapMb()
watch.get('')
while (watch.get(all.at(-1)?.name ?? '') === undefined) await sleep(20)
const lists = requests.count('list', 'pods')
requests.clear()
const watchMb = heapMb() - beforeMb

for (const { name, agent } of all) followed.set(followedAs(agent), { name, readers: 1 })
for (const until = Date.now() + minutes * MS_A_MINUTE; Date.now() < until; ) {
  await askAll()
  await sleep(Math.min(quietMs, until - Date.now()))
}
const perMinute = requests.length / minutes

// Who is not followed here is asked for at the API server.
followed.clear()
requests.clear()
const beganAt = performance.now()
await askAll()
const roundMs = performance.now() - beganAt
const polls = requests.count('get', 'pods') * (MS_A_MINUTE / quietMs)

console.log(`pods                                  ${all.length}
asked for its status every            ${quietMs / 1_000} s, each
list requests, once                   ${lists}
requests a minute with the watch      ${perMinute} (over ${minutes} min; the logs that are followed are one open request each, and not counted)
requests a minute without it          ${polls} (one round took ${(roundMs / 1_000).toFixed(1)} s)
memory of the watch                   ${watchMb.toFixed(1)} MB, ${((watchMb / all.length) * 10_000).toFixed(1)} MB for 10,000`)
await opened.close()
await kubernetes.stop()
