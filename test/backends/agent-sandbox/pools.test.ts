import { describe, expect, test } from 'vitest'
import type { Spec } from '../../../src/backends/spec.ts'
import { conditionOf, controllerOf, type KubeObject } from '../../support/kubernetes/objects.ts'
import { CLAIMS, makeEmptyPool, makePool, POOLS, stocked } from './pool-setup.ts'
import { call, type Fleet, failure, IDLING, nameOf, openFleet, SANDBOXES, serving, sh } from './setup.ts'

const kubernetes = await serving(['v1beta1'], { extensions: true, podSnapshots: true })
await makePool(kubernetes, 'warm', 2)
await makePool(kubernetes, 'cold', 0)
await makeEmptyPool(kubernetes, 'empty')

const POOL = { pool: 'warm', pause: 'disk' } as const
const COUNTING = sh('echo begun >> begins; echo hello; exec sleep 1000')
const claimed = (fleet: Fleet, spec: Spec = {}) => fleet.wanted({ template: undefined, ...spec })

async function take(fleet: Fleet, spec: Spec = {}) {
  const { ref } = await fleet.backend.create(claimed(fleet, spec), call())
  return fleet.awake(ref)
}

/** What the claim got, by its name. */
function gotBy(ref: string): string {
  const { sandbox } = (kubernetes.get(CLAIMS, nameOf(ref))?.status ?? {}) as { sandbox?: { name?: string } }
  return sandbox?.name ?? expect.unreachable()
}

const claimsOf = ({ name }: Fleet) =>
  kubernetes.list(CLAIMS).filter(({ metadata }) => metadata.labels?.['sandman.fleet'] === name)

test('one is taken that was there already, and its agent is started in it', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  await stocked(kubernetes, 'warm', 2)
  const before = kubernetes.list('pods').map(({ metadata }) => metadata.uid)
  const target = await take(fleet, { agent: { command: COUNTING, env: { WHO: 'me' } } })
  expect(before).toContain(target.incarnation)
  expect(await fleet.backend.agentStatus(target.own, call())).toEqual({ is: 'running' })
  const pieces = fleet.backend.attach(target.own, undefined, call())[Symbol.asyncIterator]()
  expect(Buffer.from((await pieces.next()).value?.bytes ?? []).toString()).toBe('hello\n')
  await pieces.return?.()
  expect(await fleet.run(target, 'cat begins')).toBe('begun\n')
  await fleet.backend.stopAgent(target.own, call())
  expect(await fleet.backend.agentStatus(target.own, call())).toMatchObject({ is: 'terminated' })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
})

test('whoever took it may have died before its agent was started: it is not awake until somebody has, and it is started once', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const wanted = claimed(fleet, { agent: { command: COUNTING } })
  const entering = kubernetes.holdOnceAt('get pods/exec')
  const giving = new AbortController()
  const first = fleet.backend.create(wanted, { signal: giving.signal })
  first.catch(() => {})
  await entering.entered(1)
  giving.abort(new Error('died'))
  await expect(first).rejects.toThrow('died')
  const [found] = await fleet.backend.find(wanted.sandboxId, call())
  expect(found).toMatchObject({ life: wanted.life })
  expect(await fleet.look(found?.ref ?? '')).toMatchObject({ is: 'changing', why: 'its agent was not started yet' })
  entering.open()
  for (let nth = 1; nth <= 2; nth++) expect(await fleet.backend.create(wanted, call())).toEqual({ ref: found?.ref })
  expect(await fleet.run(await fleet.awake(found?.ref ?? ''), 'cat begins')).toBe('begun\n')
})

test('two who ask for one life at once take one', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const wanted = claimed(fleet, { agent: { command: COUNTING } })
  const [one, other] = await Promise.all([fleet.backend.create(wanted, call()), fleet.backend.create(wanted, call())])
  expect(one).toEqual(other)
  expect(claimsOf(fleet).length).toBe(1)
  expect(await fleet.run(await fleet.awake(one.ref), 'cat begins')).toBe('begun\n')
})

test('a pool that has none left makes one for the claim, which is called like that, and has its agent', async () => {
  const fleet = await openFleet(kubernetes, { ...POOL, pool: 'cold' })
  const target = await take(fleet, { agent: { command: COUNTING } })
  expect(gotBy(target.ref)).toBe(target.name)
  expect(await fleet.run(target, 'cat begins')).toBe('begun\n')
  await fleet.end(target.ref, target.incarnation)
  expect(kubernetes.get(CLAIMS, target.name)).toBeUndefined()
  expect(kubernetes.get(SANDBOXES, target.name)).toBeUndefined()
})

test('it is paused and resumed with its files, and its agent begins anew, also by a worker that has no pool', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const target = await take(fleet, { agent: { command: COUNTING } })
  const checkpointRef = await fleet.suspend(target)
  expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
  const other = await openFleet(kubernetes, { fleet: fleet.name, pause: 'disk' })
  expect(await other.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
  const awake = await other.resume(target.ref, checkpointRef)
  expect(awake.incarnation).not.toBe(target.incarnation)
  expect(await other.backend.agentStatus(awake.own, call())).toEqual({ is: 'running' })
  expect(await other.backend.agentStatus(target.own, call())).toMatchObject({ is: 'restarted' })
  await expect.poll(() => fleet.run(awake, 'cat begins')).toBe('begun\nbegun\n')
})

test('a resume that dies before the agent was started is finished by who resumes it again', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const target = await take(fleet, { agent: { command: COUNTING } })
  const checkpointRef = await fleet.suspend(target)
  const entering = kubernetes.holdOnceAt('get pods/exec')
  const giving = new AbortController()
  const asked = { key: 'op_a', ttlMs: 600_000 }
  const first = fleet.pausing.resume({ ref: target.ref, checkpointRef }, asked, { signal: giving.signal })
  first.catch(() => {})
  await entering.entered(1)
  giving.abort(new Error('died'))
  await expect(first).rejects.toThrow('died')
  // Its pod runs, and it is not what it was: it is to be resumed once more.
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'suspended' })
  expect(await fleet.verify(checkpointRef)).toEqual({ is: 'ready' })
  entering.open()
  const awake = await fleet.resume(target.ref, checkpointRef)
  expect(await fleet.backend.agentStatus(awake.own, call())).toEqual({ is: 'running' })
})

test('a pod that replaces one which somebody has deleted has no agent, and is not awake before it has', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const target = await take(fleet, { agent: { command: COUNTING } })
  const name = gotBy(target.ref)
  await fleet.delete('pods', name)
  await fleet.replaced(name, target.incarnation)
  await expect.poll(() => fleet.look(target.ref)).toMatchObject({ is: 'suspended' })
  const { checkpointRef } = (await fleet.look(target.ref)) as { checkpointRef: string }
  const awake = await fleet.resume(target.ref, checkpointRef)
  expect(awake.incarnation).not.toBe(target.incarnation)
  await expect.poll(() => fleet.run(awake, 'cat begins')).toBe('begun\nbegun\n')
})

test('a claim that is given another sandbox, because its own was deleted, is lost, and is ended as such', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const target = await take(fleet)
  const name = gotBy(target.ref)
  await fleet.ask('DELETE', `/apis/agents.x-k8s.io/v1beta1/namespaces/${kubernetes.namespace}/sandboxes/${name}`)
  await expect
    .poll(() => fleet.look(target.ref))
    .toMatchObject({
      is: 'lost',
      why: expect.stringContaining('was given to its claim instead'),
    })
  expect(await failure(fleet.wake(target.ref, `${target.ref}@${target.incarnation}`))).toMatchObject({
    type: 'checkpoint_missing',
  })
  const instead = gotBy(target.ref)
  await fleet.end(target.ref, null)
  expect(await fleet.look(target.ref)).toEqual({ is: 'absent' })
  expect(kubernetes.get(SANDBOXES, instead)).toBeUndefined()
})

test('it is listed, found by its owner, and ended with its claim; then the pool is as it was', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const made = await fleet.create()
  const wanted = claimed(fleet)
  const { ref } = await fleet.backend.create(wanted, call())
  const listed: string[] = []
  for (let cursor: string | undefined, page = 0; page === 0 || cursor !== undefined; page++) {
    const { items, next } = await fleet.backend.lists.instances(cursor, call())
    listed.push(...items.map((item) => item.ref))
    cursor = next
  }
  expect(listed).toEqual([made.ref, ref])
  expect(await fleet.backend.find(wanted.sandboxId, call())).toEqual([{ ref, life: wanted.life }])
  expect(await fleet.backend.agentStatus((await fleet.awake(ref)).own, call())).toEqual({ is: 'none' })
  const name = gotBy(ref)
  await fleet.end(ref, (await fleet.awake(ref)).incarnation)
  expect(claimsOf(fleet)).toEqual([])
  for (const resource of [SANDBOXES, 'pods']) expect(kubernetes.get(resource, name)).toBeUndefined()
  await stocked(kubernetes, 'warm', 2)
})

test('a late end does not hit what was resumed meanwhile (incident Q)', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const target = await take(fleet)
  const checkpointRef = await fleet.suspend(target)
  const deleting = kubernetes.holdOnceAt('delete sandboxes')
  const ending = failure(fleet.end(target.ref, null))
  await deleting.entered(1)
  const awake = await fleet.resume(target.ref, checkpointRef)
  deleting.open()
  expect(await ending).toMatchObject({ type: 'overtaken' })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: awake.incarnation })
})

test.each([
  ['no-such-pool', 'WarmPoolNotFound'],
  ['empty', 'TemplateNotFound'],
])('from %s nothing can be claimed, which is said, and nothing is left', async (pool, reason) => {
  const fleet = await openFleet(kubernetes, { ...POOL, pool })
  expect(await failure(fleet.backend.create(claimed(fleet), call()))).toMatchObject({
    type: 'spec_invalid',
    message: expect.stringContaining(reason),
  })
  await expect.poll(() => claimsOf(fleet)).toEqual([])
})

describe('what its template decides is refused, and nothing is taken', () => {
  test.each<[string, Spec]>([
    ['agent.sidecar', { agent: { command: IDLING, sidecar: { command: IDLING } } }],
    ['limits.memoryBytesMax', { limits: { memoryBytesMax: 1 << 30 } }],
    ['limits.cpusMax', { limits: { cpusMax: 1 } }],
    ['readOnlyRoot', { readOnlyRoot: true }],
  ])('%s', async (name, spec) => {
    const fleet = await openFleet(kubernetes, POOL)
    expect(await failure(fleet.backend.create(claimed(fleet, spec), call()))).toMatchObject({
      type: 'spec_invalid',
      message: expect.stringContaining(`\`${name}\``),
    })
    expect(claimsOf(fleet)).toEqual([])
  })
})

test('a sandbox that somebody else has claimed can be adopted, and is ended with its claim', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const path = `/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/${kubernetes.namespace}/sandboxclaims`
  const name = `theirs-${fleet.name}`
  const spec = { warmPoolRef: { name: 'warm' } }
  await fleet.ask('POST', path, {
    apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
    kind: 'SandboxClaim',
    metadata: { name },
    spec,
  })
  const isBound = (claim: KubeObject | undefined) =>
    claim !== undefined && conditionOf(claim, 'Ready')?.status === 'True'
  await kubernetes.when(CLAIMS, name, isBound)
  const ref = gotBy(name)
  const { incarnation } = await fleet.awake(ref)
  await fleet.backend.adopt(ref, { sandboxId: 'sbx_a', life: 'op_a' }, call())
  expect((await fleet.backend.find('sbx_a', call())).map((found) => found.ref)).toEqual([ref])
  await fleet.end(ref, incarnation)
  expect(kubernetes.get(CLAIMS, name)).toBeUndefined()
  expect(kubernetes.list(SANDBOXES).filter((one) => controllerOf(one)?.name === name)).toEqual([])
})

test('with memory, what it begins as is said of its claim, and taken back there', async () => {
  const fleet = await openFleet(kubernetes, { pool: 'warm' })
  expect(fleet.pausing.preserves).toBe('memory')
  const target = await take(fleet, { agent: { command: COUNTING } })
  const checkpointRef = await fleet.suspend(target)
  const awake = await fleet.resume(target.ref, checkpointRef)
  expect(await fleet.backend.agentStatus(awake.own, call())).toEqual({ is: 'running' })
  // It is the same process.
  expect(await fleet.run(awake, 'cat begins')).toBe('begun\n')
  const told = () => JSON.stringify(kubernetes.get(CLAIMS, target.name)?.spec)
  expect(told()).not.toContain(checkpointRef.split('snapshot:')[1])
  const second = await fleet.suspend(awake)
  expect(second).not.toBe(checkpointRef)
  await fleet.pausing.discard(checkpointRef, call())
  expect(await fleet.run(await fleet.resume(target.ref, second), 'cat begins')).toBe('begun\n')
})

test('a pool that is gone keeps nobody who was taken from it from waking', async () => {
  const fleet = await openFleet(kubernetes, { ...POOL, pool: 'passing' })
  await makePool(kubernetes, 'passing', 1)
  const target = await take(fleet, { agent: { command: COUNTING } })
  const checkpointRef = await fleet.suspend(target)
  const path = `/apis/extensions.agents.x-k8s.io/v1beta1/namespaces/${kubernetes.namespace}/sandboxwarmpools/passing`
  await fleet.ask('DELETE', path)
  await kubernetes.when(POOLS, 'passing', (pool) => pool === undefined)
  await fleet.resume(target.ref, checkpointRef)
})

test('who ends it while somebody else has half ended it has ended it, too', async () => {
  const fleet = await openFleet(kubernetes, POOL)
  const target = await take(fleet)
  const got = gotBy(target.ref)
  const deleting = kubernetes.holdOnceAt('delete sandboxclaims')
  const first = fleet.end(target.ref, target.incarnation)
  await deleting.entered(1)
  await kubernetes.when(
    SANDBOXES,
    got,
    (sandbox) => sandbox === undefined || sandbox.metadata.deletionTimestamp !== undefined,
  )
  await fleet.end(target.ref, target.incarnation)
  deleting.open()
  await first
  expect(claimsOf(fleet)).toEqual([])
})
