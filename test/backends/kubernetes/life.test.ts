import { afterEach, describe, expect, test, vi } from 'vitest'
import type { Agent } from '../../../src/backends/backend.ts'
import { BEFORE_STOP } from '../../../src/backends/shell/main-process.ts'
import { quotaExceeded } from '../../support/kubernetes/api-error.ts'
import { call, failure, IDLING, nameOf, newId, openFleet, sh, startCluster } from './setup.ts'

const kubernetes = await startCluster()
const PODS = { group: '', plural: 'pods', kind: 'Pod' }
const WAIT = { timeout: 10_000, interval: 20 }

afterEach(() => {
  vi.useRealTimers()
  kubernetes.heal()
  kubernetes.schedulable = true
})

/** The clocks by which the backend waits go on; nothing else does. */
function waitFor(ms: number): void {
  vi.useFakeTimers({ toFake: ['Date'], now: Date.now() + ms })
}

describe('a sandbox that is made', () => {
  test('carries its owner before it can be lost, and says whether it has an agent', async () => {
    const fleet = await openFleet(kubernetes)
    const wanted = fleet.wanted({ agent: { command: IDLING } })
    const held = kubernetes.holdAnswersOf('create pods')
    const creating = fleet.backend.create(wanted, call())
    await held.entered(1)
    const [listed] = (await fleet.backend.lists.instances(undefined, call())).items
    expect(listed).toMatchObject({ sandboxId: wanted.sandboxId, life: wanted.life })
    held.open()
    const { ref } = await creating
    expect(kubernetes.get('pods', nameOf(ref))?.metadata).toMatchObject({
      labels: { 'sandman.fleet': fleet.name, 'sandman.backend': 'kubernetes-pod' },
      annotations: { 'sandman.agent': 'own' },
    })
  })

  test.each([
    ['not found', 'no-such-image', /ErrImagePull|ImagePullBackOff/],
    ['no name of one', 'Not An Image', /InvalidImageName/],
  ])('from an image that is %s is deleted again, and said to be wrong', async (_what, template, why) => {
    const fleet = await openFleet(kubernetes)
    const wanted = fleet.wanted({ template })
    const { type, message } = await failure(fleet.backend.create(wanted, call()))
    expect(type).toBe('spec_invalid')
    expect(message).toMatch(why)
    expect(await fleet.backend.find(wanted.sandboxId, call())).toEqual([])
  })

  test('without a node for it is on its way, and begins when there is one', async () => {
    const fleet = await openFleet(kubernetes)
    kubernetes.schedulable = false
    const wanted = fleet.wanted()
    const creating = fleet.backend.create(wanted, call())
    const pod = await vi.waitFor(() => {
      const made = kubernetes
        .list('pods')
        .find(({ metadata }) => metadata.labels?.['sandman.life'] === wanted.life)?.metadata
      expect(kubernetes.requests.some(({ verb, name }) => verb === 'get' && name === made?.name)).toBe(true)
      return made
    }, WAIT)
    waitFor(20_000)
    kubernetes.setPhase(pod?.name ?? '', 'Pending') // something is told of it
    const { ref } = await creating
    vi.useRealTimers()
    const seen = await fleet.look(ref)
    expect(seen).toMatchObject({ is: 'changing', why: expect.stringContaining('no node was found for it') })
    expect((await failure(fleet.backend.run({ ref, incarnation: null }, 'true', call()))).type).toBe('overtaken')
    const { incarnation } = seen as { incarnation: string }
    expect((await failure(fleet.backend.run({ ref, incarnation }, 'true', call()))).type).toBe('sandbox_unreachable')
    kubernetes.schedulable = true
    await vi.waitFor(async () => expect((await fleet.look(ref)).is).toBe('running'), WAIT)
    expect((await fleet.made(ref)).incarnation).toBe(incarnation)
  })

  test('and has not begun yet can be ended', async () => {
    const fleet = await openFleet(kubernetes)
    kubernetes.schedulable = false
    const abort = new AbortController()
    const wanted = fleet.wanted()
    const creating = fleet.backend.create(wanted, abort)
    creating.catch(() => {})
    const [found] = await vi.waitFor(async () => {
      const all = await fleet.backend.find(wanted.sandboxId, call())
      expect(all).toHaveLength(1)
      return all
    }, WAIT)
    abort.abort(new Error('given up'))
    const { ref } = found as { ref: string }
    const { incarnation } = (await fleet.look(ref)) as { incarnation: string }
    await fleet.backend.end({ ref, incarnation }, call())
    expect(await fleet.look(ref)).toEqual({ is: 'absent' })
  })

  test('while the one before it, of the same name, is still being deleted, is made by a later attempt', async () => {
    const fleet = await openFleet(kubernetes)
    const wanted = fleet.wanted({ agent: { command: sh('trap "" TERM; echo ready; sleep 1000') } })
    const { ref } = await fleet.backend.create(wanted, call())
    const first = await fleet.made(ref)
    await fleet.hearUntil(first.own, 'ready\n')
    kubernetes.loseNode(first.name, { isEvicted: true })
    expect(await failure(fleet.backend.create(wanted, call()))).toMatchObject({
      type: 'sandbox_unreachable',
      message: expect.stringContaining('is being deleted'),
    })
    await kubernetes.returnNode(first.name)
    await kubernetes.when('pods', first.name, (pod) => pod === undefined)
    await fleet.backend.create(wanted, call())
    expect((await fleet.made(ref)).incarnation).not.toBe(first.incarnation)
  })

  test('beyond a quota is not made, which is said so', async () => {
    const fleet = await openFleet(kubernetes)
    const full = quotaExceeded(PODS, 'x', 'pods, requested: pods=1, used: pods=10, limited: pods=10')
    kubernetes.failNext({ verb: 'create', resource: 'pods' }, { status: 403, body: full.status })
    expect((await failure(fleet.backend.create(fleet.wanted(), call()))).type).toBe('quota_exceeded')
  })

  test('as Kubernetes would not have it is refused, with what is wrong', async () => {
    const fleet = await openFleet(kubernetes, {
      podSpec: { volumes: [{ name: 'x' }], initContainers: [{ name: 'X' }] },
    })
    const { type, message } = await failure(fleet.backend.create(fleet.wanted(), call()))
    expect(type).toBe('spec_invalid')
    expect(message).toContain('spec.initContainers[0].name')
  })

  test('in a namespace that was deleted since is not made, and the namespace is named', async () => {
    const fleet = await openFleet(kubernetes)
    await fleet.backend.lists.place(call())
    const message = 'namespaces "agents" not found'
    const gone = { kind: 'Status', status: 'Failure', reason: 'NotFound', code: 404, message }
    const details = { name: 'agents', kind: 'namespaces' }
    kubernetes.failNext({ verb: 'create', resource: 'pods' }, { status: 404, body: { ...gone, details } })
    expect(await failure(fleet.backend.create(fleet.wanted(), call()))).toEqual({
      type: 'spec_invalid',
      message: 'The cluster has no namespace agents: make it, or name another one.',
    })
  })
})

describe('an end', () => {
  test('carries the uid, so that a late one does not hit what has the same name since (incident Q)', async () => {
    const fleet = await openFleet(kubernetes)
    const wanted = fleet.wanted()
    const { ref } = await fleet.backend.create(wanted, call())
    const first = await fleet.made(ref)
    const held = kubernetes.holdOnceAt('delete pods')
    const late = fleet.backend.end(first, call())
    await held.entered(1)
    await fleet.backend.end(first, call())
    await fleet.backend.create(wanted, call())
    const second = await fleet.made(ref)
    held.open()
    expect((await failure(late)).type).toBe('overtaken')
    expect(await fleet.made(ref)).toEqual(second)
    expect((await failure(fleet.backend.end(first, call()))).type).toBe('overtaken')
  })

  test('is over when the pod is gone, and not when it was asked for', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('trap "" TERM; while :; do sleep 0.1; done')
    const pids = kubernetes.pidsOf(target.name)
    expect(pids.length).toBeGreaterThan(0)
    await fleet.backend.end(target, call())
    expect(kubernetes.get('pods', target.name)).toBeUndefined()
    const deletes = kubernetes.requests.filter(({ verb, name }) => verb === 'delete' && name === target.name)
    expect(deletes.map(({ body }) => body)).toMatchObject([{ preconditions: { uid: target.incarnation } }])
  })

  test('on a node that is lost is not claimed, and comes true when the node is back', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    kubernetes.loseNode(target.name)
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'changing', incarnation: target.incarnation })
    const ending = fleet.backend.end(target, call())
    await vi.waitFor(() => {
      const asked = kubernetes.requests.filter(({ name }) => name === target.name).map(({ verb }) => verb)
      expect(asked.slice(-2)).toEqual(['delete', 'get'])
    }, WAIT)
    waitFor(50_000)
    kubernetes.setPhase(target.name, 'Running')
    expect(await failure(ending)).toMatchObject({
      type: 'sandbox_unreachable',
      message: expect.stringContaining('its node node-1 does not answer, and it was to be deleted'),
    })
    vi.useRealTimers()
    expect((await fleet.look(target.ref)).is).toBe('changing')
    await kubernetes.returnNode(target.name)
    await fleet.backend.end(target, call())
    expect(await fleet.look(target.ref)).toEqual({ is: 'absent' })
  })

  test('of what only remains needs no incarnation', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    await kubernetes.evict(target.name, { dropStatuses: true })
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'lost', why: expect.stringContaining('Evicted') })
    expect((await fleet.backend.lists.instances(undefined, call())).items).toMatchObject([{ isLost: true }])
    await fleet.backend.end({ ref: target.ref, incarnation: null }, call())
    expect(await fleet.look(target.ref)).toEqual({ is: 'absent' })
  })
})

describe('the agent of a sandbox', () => {
  test('may end in its own way when it is stopped, and its sandbox ends with it', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('trap "echo bye; exit 7" TERM; echo ready; while :; do sleep 0.05; done')
    const { cursor } = await fleet.hearUntil(target.own, 'ready\n')
    await fleet.backend.stopAgent(target.own, call())
    expect(await fleet.backend.agentStatus(target.own, call())).toMatchObject({ is: 'terminated', exitCode: 7 })
    const { text, isLast } = await fleet.hear(target.own, cursor)
    expect(text).toMatch(/bye\n$/)
    expect(isLast).toBe(true)
    expect((await fleet.look(target.ref)).is).toBe('lost')
    await fleet.backend.stopAgent(target.own, call())
  })

  test('that does not want to is killed', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('trap "" TERM; echo ready; while :; do sleep 0.05; done')
    await fleet.hearUntil(target.own, 'ready\n')
    await fleet.backend.stopAgent(target.own, call())
    expect(await fleet.backend.agentStatus(target.own, call())).toMatchObject({ is: 'terminated', exitCode: 137 })
  })

  test('of a pod that starts it again is another one then, which nobody stops who meant the first', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('echo ready; sleep 1000')
    await kubernetes.restartContainer(target.name, 'agent', { exitCode: 3 })
    const again = { is: 'running', incarnation: `${target.incarnation}.1` }
    await vi.waitFor(async () => expect(await fleet.look(target.ref)).toEqual(again), WAIT)
    expect((await fleet.backend.agentStatus(target.own, call())).is).toBe('restarted')
    expect((await fleet.hear(target.own)).text).toBe('')
    expect((await failure(fleet.backend.stopAgent(target.own, call()))).type).toBe('overtaken')
    expect((await failure(fleet.backend.end(target, call()))).type).toBe('overtaken')
    const { own } = await fleet.made(target.ref)
    expect((await fleet.hearUntil(own, 'ready\n')).text).toBe('ready\n')
  })

  test('is told to end before its pod is deleted, by whomever', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('trap "echo bye; exit 7" TERM; echo ready; while :; do sleep 0.05; done')
    await fleet.hearUntil(target.own, 'ready\n')
    const container = kubernetes.container(target.name, 'agent')
    // As a node does it, in the container.
    await container.exec({ command: BEFORE_STOP, stdin: false, tty: false })
    expect(await container.ended).toMatchObject({ exitCode: 7 })
    expect((await fleet.hear(target.own)).text).toMatch(/^ready\n(.*\n)?bye\n$/)
  })

  test('on a node that is lost is not known to run, nor to have ended', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    const byKey: Agent = { ...target.own, key: newId('exe') }
    await fleet.backend.startAgent(target, { key: byKey.key as string, command: IDLING }, call())
    kubernetes.loseNode(target.name)
    for (const agent of [target.own, byKey]) {
      expect((await failure(fleet.backend.agentStatus(agent, call()))).type).toBe('sandbox_unreachable')
      expect((await failure(fleet.hear(agent))).type).toBe('sandbox_unreachable')
    }
    await kubernetes.returnNode(target.name)
    for (const agent of [target.own, byKey])
      expect(await fleet.backend.agentStatus(agent, call())).toEqual({ is: 'running' })
  })

  test('and those by key have ended with an eviction, and nobody can say how', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.run('sleep 1000')
    const byKey: Agent = { ...target.own, key: newId('exe') }
    await fleet.backend.startAgent(target, { key: byKey.key as string, command: IDLING }, call())
    await kubernetes.evict(target.name)
    const unknown = { is: 'terminated', exitCode: null, signal: null, oomKilled: undefined }
    for (const agent of [target.own, byKey]) expect(await fleet.backend.agentStatus(agent, call())).toEqual(unknown)
    expect((await failure(fleet.backend.run(target, 'true', call()))).type).toBe('sandbox_expired')
  })
})

describe('a preview', () => {
  test('is at the pod’s own address, or where it was said to be', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    expect(await fleet.backend.previewUrl(target.ref, 8080, call())).toBe('http://127.0.0.1:8080')
    const previewUrl = 'https://{port}-{name}.preview.example.com/{address}'
    const other = await openFleet(kubernetes, { fleet: fleet.name, previewUrl })
    expect(await other.backend.previewUrl(target.ref, 8080, call())).toBe(
      `https://8080-${target.name}.preview.example.com/127.0.0.1`,
    )
    kubernetes.setPhase(target.name, 'Running', { podIP: 'fd00::7' })
    expect(await fleet.backend.previewUrl(target.ref, 80, call())).toBe('http://[fd00::7]:80')
  })
})

test('a list that always has another page is not believed, and not read for ever', async () => {
  const fleet = await openFleet(kubernetes)
  const body = { kind: 'PodList', metadata: { resourceVersion: '1', continue: 'more' }, items: [] }
  kubernetes.failNext({ verb: 'list', resource: 'pods' }, { status: 200, body }, 1_000)
  expect(await failure(fleet.backend.find(newId('sbx'), call()))).toEqual({
    type: 'sandbox_unreachable',
    message: expect.stringContaining('does not end'),
  })
  kubernetes.heal()
})
