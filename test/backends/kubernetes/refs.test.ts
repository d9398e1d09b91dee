import { describe, expect, onTestFinished, test } from 'vitest'
import { isElsewhere, nameIn, nameOf, refOf, wordOf } from '../../../src/backends/kubernetes/names.ts'
import { FakeKubernetes } from '../../support/kubernetes/server.ts'
import { pod } from './fake-setup.ts'
import { call, failure, newId, openFleet, startCluster } from './setup.ts'

const kubernetes = await startCluster()
const HOME = { fleet: 'fleet', namespace: 'agents', place: '0123abcd' }

describe('a name', () => {
  test('is the same for the same life, and one that Kubernetes takes, whatever the life is called', () => {
    const lives = [newId('op'), 'op_X', 'a'.repeat(200), 'Ünï', '', '-', 'a.b', 'op-', 'x'.repeat(41)]
    const names = lives.map((life) => nameOf(HOME, { life }))
    for (const name of names) expect(name).toMatch(/^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/)
    expect(new Set(names).size).toBe(lives.length)
    expect(lives.map((life) => nameOf(HOME, { life }))).toEqual(names)
    expect(nameOf({ ...HOME, fleet: 'other' }, { life: 'op_1' })).not.toBe(nameOf(HOME, { life: 'op_1' }))
  })

  test('is not that of another key, also when one is written like the other in a name', () => {
    expect(wordOf('a_b')).toBe('a-b')
    expect(wordOf('a b')).not.toBe(wordOf('a_b'))
  })
})

describe('a ref', () => {
  test('names cluster, namespace and pod, and may be shorter', () => {
    expect(refOf(HOME, 'x')).toBe('0123abcd/agents/x')
    for (const ref of ['0123abcd/agents/x', 'agents/x', 'x']) expect(nameIn(HOME, ref)).toBe('x')
    for (const ref of ['ffffffff/agents/x', '0123abcd/other/x', 'other/x']) {
      expect(isElsewhere(HOME, ref)).toBe(true)
      expect(() => nameIn(HOME, ref)).toThrow(/in another cluster or namespace/)
    }
  })

  test.each(['', '..', 'agents/..', 'x?watch=true', 'x/', 'a/b/c/x', 'x#', 'X', 'x%2f..', '0123abcd/agents/', '-x'])(
    'is not %j, of which nothing is asked',
    async (ref) => {
      const fleet = await openFleet(kubernetes)
      await fleet.backend.lists.place(call())
      kubernetes.requests.clear()
      const { backend } = fleet
      const owner = { sandboxId: newId('sbx'), life: newId('op') }
      expect((await failure(backend.look(ref, call()))).type).toBe('spec_invalid')
      expect((await failure(backend.adopt(ref, owner, call()))).type).toBe('spec_invalid')
      expect((await failure(backend.end({ ref, incarnation: null }, call()))).type).toBe('spec_invalid')
      expect(kubernetes.requests.filter(({ verb }) => verb !== 'watch' && verb !== 'list')).toEqual([])
    },
  )

  test('of another cluster, or another namespace, is not said to be gone, and is in another place', async () => {
    const { backend } = await openFleet(kubernetes)
    const place = await backend.lists.place(call())
    for (const ref of ['ffffffff/agents/x', `${place?.name}/other/x`]) {
      expect((await failure(backend.look(ref, call()))).type).toBe('sandbox_unreachable')
      expect((await failure(backend.end({ ref, incarnation: null }, call()))).type).toBe('sandbox_unreachable')
      expect(place?.holds(ref)).toBe(false)
    }
    expect(place?.holds(`${place.name}/agents/x`)).toBe(true)
  })

  test('of one that another cluster has, which answers at the same address by now, is not said to be gone', async () => {
    const { backend, create } = await (async () => {
      const fleet = await openFleet(kubernetes)
      return { backend: fleet.backend, create: () => fleet.create() }
    })()
    const target = await create()
    const namespace = kubernetes.cluster.store.get('namespaces', undefined, kubernetes.namespace)
    const answer = (uid: string) => ({ ...namespace, metadata: { ...namespace?.metadata, uid } })
    const gone = { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404, details: { name: target.name } }
    const attempts = {
      look: () => backend.look(target.ref, call()),
      end: () => backend.end(target, call()),
      run: () => backend.run(target, 'true', call()),
      status: () => backend.agentStatus(target.own, call()),
    }
    for (const [name, attempt] of Object.entries(attempts)) {
      kubernetes.failNext({ resource: 'pods', verb: 'get' }, { status: 404, body: gone })
      kubernetes.failNext({ resource: 'namespaces' }, { status: 200, body: answer('another') as never })
      const { type, message } = await failure(attempt())
      expect([name, type]).toEqual([name, 'sandbox_unreachable'])
      expect(message).toContain('Another cluster')
    }
    expect((await backend.look(target.ref, call())).is).toBe('running')
  })
})

describe('what somebody else has made', () => {
  async function foreign(metadata: object = {}) {
    const name = `theirs-${newId('x').slice(2, 10)}`
    const { url, token, namespace } = kubernetes
    const body = JSON.stringify(pod(name, {}, { labels: { app: 'theirs' }, ...metadata }))
    const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' }
    await fetch(`${url}/api/v1/namespaces/${namespace}/pods`, { method: 'POST', headers, body })
    await kubernetes.when('pods', name, (seen) => seen?.status?.phase === 'Running')
    return name
  }
  const owner = () => ({ sandboxId: newId('sbx'), life: newId('op') })

  test.each([
    ['its name', (name: string) => name],
    ['its namespace and its name', (name: string) => `agents/${name}`],
  ])('is adopted by %s, keeps its own labels, and is found and listed by that ref', async (_what, refOf) => {
    const { backend } = await openFleet(kubernetes)
    const name = await foreign()
    const [ref, to] = [refOf(name), owner()]
    await backend.adopt(ref, to, call())
    expect(await backend.find(to.sandboxId, call())).toEqual([{ ref, life: to.life }])
    expect((await backend.lists.instances(undefined, call())).items).toEqual([{ ref, ...to }])
    expect(kubernetes.get('pods', name)?.metadata.labels?.app).toBe('theirs')
    const seen = await backend.look(ref, call())
    if (seen.is !== 'running') return expect.unreachable()
    const target = { ref, incarnation: seen.incarnation }
    expect((await backend.run(target, 'echo here', call())).output).toBe('here\n')
    // By any other name it is not known, so that one pod is not two sandboxes.
    expect((await failure(backend.look(`${ref.startsWith('agents/') ? '' : 'agents/'}${name}`, call()))).type).toBe(
      'spec_invalid',
    )
    await backend.end(target, call())
    expect(kubernetes.get('pods', name)).toBeUndefined()
  })

  test('is not taken from another fleet', async () => {
    const name = await foreign({ labels: { 'sandman.fleet': 'somebody-else' } })
    const { backend } = await openFleet(kubernetes)
    for (const attempt of [backend.adopt(name, owner(), call()), backend.look(name, call())])
      expect(await failure(attempt)).toMatchObject({
        type: 'spec_invalid',
        message: expect.stringContaining('belongs to fleet somebody-else'),
      })
  })

  test('that somebody changes at the same moment is adopted by the next attempt', async () => {
    const { backend } = await openFleet(kubernetes)
    const name = await foreign()
    const held = kubernetes.holdOnceAt('patch pods')
    const adopting = backend.adopt(name, owner(), call())
    await held.entered(1)
    kubernetes.cluster.store.change('pods', kubernetes.get('pods', name) as never, ({ metadata }) => {
      metadata.annotations = { theirs: 'changed' }
    })
    held.open()
    expect((await failure(adopting)).type).toBe('sandbox_unreachable')
    await backend.adopt(name, owner(), call())
    expect(kubernetes.get('pods', name)?.metadata.annotations).toMatchObject({ theirs: 'changed', 'sandman.ref': name })
  })
})

test('a namespace that there is not is said so, and nothing else is', async () => {
  const fake = await FakeKubernetes.start()
  onTestFinished(() => fake.stop())
  const { backend, wanted } = await (async () => {
    const fleet = await openFleet(fake, { namespace: 'nowhere' })
    return { backend: fleet.backend, wanted: fleet.wanted() }
  })()
  expect((await failure(backend.create(wanted, call()))).message).toContain('namespaces "nowhere" not found')
  expect((await failure(backend.look('x', call()))).type).toBe('sandbox_unreachable')
})
