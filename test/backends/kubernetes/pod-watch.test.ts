import { expect, onTestFinished, test, vi } from 'vitest'
import { Api } from '../../../src/backends/kubernetes/api.ts'
import { stateOf } from '../../../src/backends/kubernetes/pod-state.ts'
import { PodWatch } from '../../../src/backends/kubernetes/pod-watch.ts'
import { GATEWAY } from '../../support/kubernetes/faults.ts'
import { FakeKubernetes, type FakeKubernetesOptions } from '../../support/kubernetes/server.ts'
import { configOf } from './fake-setup.ts'
import { call } from './setup.ts'

const SELECTOR = 'fleet=a'

/** A cluster with so many pods of this fleet, and a watch on them. */
async function setup({ pods = 3, ...options }: FakeKubernetesOptions & { pods?: number } = {}) {
  const kubernetes = await FakeKubernetes.start(options)
  const api = new Api(configOf(kubernetes))
  const watch = new PodWatch(api, kubernetes.namespace, SELECTOR)
  onTestFinished(async () => {
    vi.useRealTimers()
    await watch.close()
    api.close()
    await kubernetes.stop()
  })
  const seed = (count: number, prefix: string, fleet = 'a') =>
    kubernetes.seed(count, (n) => ({
      metadata: { name: `${prefix}-${n}`, labels: { fleet } },
      spec: { restartPolicy: 'Never', containers: [{ name: 'agent', image: 'sandman-test' }] },
    }))
  seed(pods, 'pod')
  const remove = async (name: string) => {
    const url = `${kubernetes.url}/api/v1/namespaces/${kubernetes.namespace}/pods/${name}?gracePeriodSeconds=0`
    await fetch(url, { method: 'DELETE', headers: { authorization: `Bearer ${kubernetes.token}` } })
  }
  const known = (name: string) => vi.waitFor(() => expect(watch.get(name)).toBeDefined(), WAIT)
  const unknown = (name: string) => vi.waitFor(() => expect(watch.get(name)).toBeUndefined(), WAIT)
  const count = (verb: 'list' | 'watch') => kubernetes.requests.count(verb, 'pods')
  const watching = () => vi.waitFor(() => expect(kubernetes.cluster.watches.count).toBe(1), WAIT)
  return { kubernetes, watch, seed, remove, known, unknown, count, watching }
}

const WAIT = { timeout: 10_000, interval: 10 }

test('nothing is asked for before somebody wants to know', async () => {
  const { kubernetes, watch, known } = await setup()
  expect([watch.size, kubernetes.requests.length]).toEqual([0, 0])
  expect(watch.get('pod-0')).toBeUndefined()
  await known('pod-0')
  expect(watch.size).toBe(3)
})

test('a list in pages and one watch tell of all pods of a fleet, and of what becomes of them', async () => {
  const { kubernetes, watch, seed, remove, known, unknown, count } = await setup({ pods: 1_201 })
  seed(5, 'stranger', 'b')
  watch.get('pod-0')
  await known('pod-1200')
  expect([watch.size, count('list'), count('watch')]).toEqual([1_201, 3, 1])
  expect(watch.get('stranger-0')).toBeUndefined()
  seed(1, 'late')
  await known('late-0')
  kubernetes.setPhase('late-0', 'Failed', { reason: 'Evicted' })
  await vi.waitFor(() => expect(stateOf(watch.get('late-0') as never).is).toBe('evicted'), WAIT)
  const { store } = kubernetes.cluster
  await remove('pod-7')
  await unknown('pod-7')
  // One that loses its label is none of this fleet.
  store.change('pods', kubernetes.get('pods', 'pod-8') as never, ({ metadata }) => {
    metadata.labels = { fleet: 'b' }
  })
  await unknown('pod-8')
  expect([count('list'), count('watch')]).toEqual([3, 1])
})

test('who waits for a pod is woken by what is told of it, and by nothing else', async () => {
  const { kubernetes, watch, known } = await setup()
  watch.get('pod-0')
  await known('pod-0')
  const woken: string[] = []
  const waiting = ['pod-0', 'pod-1'].map((name) => watch.change(name, 5_000, call()).then(() => void woken.push(name)))
  kubernetes.setPhase('pod-1', 'Failed')
  await waiting[1]
  expect(woken).toEqual(['pod-1'])
  kubernetes.setPhase('pod-0', 'Failed')
  await waiting[0]
})

test('who waits in vain goes on after a while, and who gives up fails with the reason', async () => {
  const { watch } = await setup()
  await watch.change('pod-0', 5, call())
  const reason = new Error('given up')
  const abort = new AbortController()
  const waiting = watch.change('no-such-pod', 60_000, abort)
  abort.abort(reason)
  await expect(waiting).rejects.toBe(reason)
  await expect(watch.change('pod-0', 60_000, { signal: AbortSignal.abort(reason) })).rejects.toBe(reason)
})

test('a bookmark moves it on, so that it need not list again when what was before is forgotten', async () => {
  const { kubernetes, seed, watch, known, count, watching } = await setup()
  watch.get('pod-0')
  await known('pod-0')
  seed(20, 'stranger', 'b')
  kubernetes.cluster.watches.bookmark()
  kubernetes.compact()
  kubernetes.dropWatches('fin')
  await vi.waitFor(() => expect(count('watch')).toBe(2), WAIT)
  await watching()
  await known('pod-0')
  expect(count('list')).toBe(1)
})

test.each(['event', 'http'] as const)(
  'when what it knows is too old, told as an %s, all is listed again, and what is gone meanwhile is forgotten',
  async (goneAs) => {
    const { kubernetes, watch, seed, remove, known, unknown, count } = await setup()
    kubernetes.goneAs = goneAs
    watch.get('pod-0')
    await known('pod-0')
    const gone = watch.change('pod-0', 10_000, call())
    const held = kubernetes.holdAt('watch pods')
    kubernetes.dropWatches('fin')
    await held.entered(1)
    await remove('pod-0')
    seed(1, 'new')
    kubernetes.compact()
    held.open()
    await gone
    await known('new-0')
    await unknown('pod-0')
    expect(count('list')).toBe(2)
  },
)

test('a list that is forgotten between two pages is begun again', async () => {
  const { kubernetes, watch, known } = await setup({ pods: 600 })
  const gone = { kind: 'Status', status: 'Failure', reason: 'Expired', code: 410, message: 'too old' }
  watch.get('pod-0')
  kubernetes.failNext({ verb: 'list', path: /pods/ }, { delayMs: 0 })
  kubernetes.failNext({ verb: 'list' }, { status: 410, body: gone })
  await known('pod-0')
  expect(watch.size).toBe(600)
})

test.each(['410', 'reset', 'half', 'garbage', 'fin'] as const)(
  'after %s on the wire it goes on, and misses nothing',
  async (how) => {
    const { kubernetes, watch, known, seed, count, watching } = await setup()
    watch.get('pod-0')
    await known('pod-0')
    await watching()
    kubernetes.dropWatches(how)
    seed(1, 'late')
    await known('late-0')
    await watching()
    expect(count('list')).toBe(how === '410' ? 2 : 1)
  },
)

test('while nobody would tell of a change, nothing is said to be known', async () => {
  const { kubernetes, watch, known } = await setup()
  watch.get('pod-0')
  await known('pod-0')
  const held = kubernetes.holdAt('watch pods')
  kubernetes.dropWatches('reset')
  await held.entered(1)
  expect(watch.get('pod-0')).toBeUndefined()
  held.open()
  await known('pod-0')
})

test('a watch that is silent, and has not ended when it was to, is taken for dead', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'performance'] })
  const { kubernetes, watch, count } = await setup()
  const real = async (isSo: () => boolean) => {
    while (!isSo()) await new Promise<void>((resolve) => setImmediate(resolve))
  }
  watch.get('pod-0')
  await real(() => watch.get('pod-0') !== undefined)
  kubernetes.dropWatches('silence')
  vi.advanceTimersByTime(74_000)
  expect(watch.get('pod-0')).toBeDefined()
  expect(count('watch')).toBe(1)
  vi.advanceTimersByTime(2_000)
  expect(watch.get('pod-0')).toBeUndefined()
  await real(() => count('watch') === 2)
  await real(() => watch.get('pod-0') !== undefined)
  expect(count('list')).toBe(1)
})

test.each([
  ['a gateway that knows no such page', GATEWAY.plain404],
  ['a page of somebody else', { status: 200, body: '<h1>Welcome</h1>', type: 'text/html' }],
  ['an answer that ends at once', { status: 200, body: '', type: 'application/json' }],
  ['a reset', 'reset' as const],
])('%s in its place is not asked again and again without a pause', async (_what, fault) => {
  const { kubernetes, watch, known, count } = await setup()
  // What is reset on a connection that was kept is asked once more at once.
  const times = fault === 'reset' ? 3 : 2
  kubernetes.failNext({ verb: 'watch' }, fault, times)
  watch.get('pod-0')
  const beganAt = performance.now()
  await known('pod-0')
  expect(performance.now() - beganAt).toBeGreaterThan(700) // a quarter of a second, and a half
  expect([count('list'), count('watch')]).toEqual([1, times + 1])
})

test('a list that cannot be had is asked for again, and nobody who waits is kept', async () => {
  const { kubernetes, watch, known } = await setup()
  kubernetes.failNext({ verb: 'list' }, { status: 200, body: { kind: 'Something' } })
  kubernetes.failNext({ verb: 'list' }, { status: 403, body: { kind: 'Status', reason: 'Forbidden', code: 403 } })
  await watch.change('pod-0', 10, call())
  await known('pod-0')
})

test('when it is closed it leaves nothing behind, whatever it is doing', async () => {
  for (const place of ['list pods', 'watch pods', 'nowhere'] as const) {
    const { kubernetes, watch, known } = await setup()
    const held = kubernetes.holdAt(place)
    watch.get('pod-0')
    if (place === 'nowhere') await known('pod-0')
    else await held.entered(1)
    await watch.close()
    await vi.waitFor(() => expect(kubernetes.openConnections).toBe(0), WAIT)
    held.open()
  }
  const { watch } = await setup()
  await watch.close() // of one that was never begun
})
