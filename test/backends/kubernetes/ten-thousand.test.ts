import { expect, onTestFinished, test, vi } from 'vitest'
import { Agents, followedAs } from '../../../src/backends/kubernetes/agents.ts'
import { openCluster } from '../../../src/backends/kubernetes/cluster.ts'
import { labelsOf } from '../../../src/backends/kubernetes/labels.ts'
import { refOf } from '../../../src/backends/kubernetes/names.ts'
import { findPod } from '../../../src/backends/kubernetes/pods.ts'
import { call, newId, startCluster } from './setup.ts'

const PODS = 10_000
const kubernetes = await startCluster()

test('ten thousand silent agents that are followed cost no request: a list in pages, and one watch', async () => {
  const { namespace } = kubernetes
  const opened = await openCluster('kubernetes-pod', { fleet: 'many', namespace, connection: kubernetes.connect() })
  onTestFinished(() => opened.close())
  const cluster = await opened.find(call())
  const { home, watch, followed } = cluster
  kubernetes.seed(PODS, (n) => ({
    metadata: {
      name: `pod-${n}`,
      labels: labelsOf(home, { sandboxId: newId('sbx'), life: newId('op') }, 'kubernetes-pod'),
    },
    spec: { restartPolicy: 'Never', containers: [{ name: 'agent', image: 'sandman-test' }] },
  }))
  const agents = new Agents(cluster, async (ref, asked) => {
    const pod = await findPod(cluster, ref.slice(ref.lastIndexOf('/') + 1), asked)
    return pod && { pod, own: 'main process' }
  })
  const all = kubernetes.list('pods').map(({ metadata: { name, uid } }) => {
    const agent = { ref: refOf(home, name), incarnation: uid, key: undefined }
    followed.set(followedAs(agent), { name, readers: 1 })
    return agent
  })

  kubernetes.requests.clear()
  watch.get('pod-0')
  await vi.waitFor(() => expect(watch.get('pod-9999')).toBeDefined(), { timeout: 30_000, interval: 50 })
  expect(kubernetes.requests.map(({ verb }) => verb)).toEqual([...Array(PODS / 500).fill('list'), 'watch'])
  expect(watch.size).toBe(PODS)

  kubernetes.requests.clear()
  for (let round = 0; round < 3; round++)
    for (const agent of all) expect(await agents.status(agent, call())).toEqual({ is: 'running' })
  expect(kubernetes.requests).toHaveLength(0)

  // What becomes of one is told, and costs what it costs to make sure of it.
  kubernetes.setPhase('pod-77', 'Failed', { reason: 'Evicted', containerStatuses: [] })
  const told = all.find(({ ref }) => ref.endsWith('/pod-77'))
  if (!told) return expect.unreachable()
  await vi.waitFor(async () => expect((await agents.status(told, call())).is).toBe('terminated'))
  expect(kubernetes.requests.map(({ verb, name }) => `${verb} ${name}`)).toEqual(['get pod-77'])
})
