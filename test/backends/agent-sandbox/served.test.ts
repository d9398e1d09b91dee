import { expect, test } from 'vitest'
import { openAgentSandboxBackend } from '../../../src/backends/agent-sandbox/backend.ts'
import { GATEWAY } from '../../support/kubernetes/faults.ts'
import { call, failure, nameOf, openFleet, SANDBOXES, serving } from './setup.ts'

const kubernetes = await serving(['v1beta1'])
const { namespace } = kubernetes
const connection = kubernetes.connect()

/** Another version of agent-sandbox is installed. */
function serve(...versions: string[]): void {
  Object.assign(kubernetes.cluster.resource(SANDBOXES), { versions })
}

test('a worker asks at its start what a pause would keep, and does not start where nobody says it', async () => {
  serve()
  const opening = openAgentSandboxBackend({ fleet: 'a', namespace, connection })
  await expect(opening).rejects.toThrow(/what a pause of an agent-sandbox would keep.*SANDMAN_KUBERNETES_PAUSE/s)
  await expect(opening).rejects.toMatchObject({ cause: { message: expect.stringContaining('install agent-sandbox') } })
  serve('v1beta1')
  const backend = await openAgentSandboxBackend({ fleet: 'a', namespace, connection })
  expect(backend.pausing).toMatchObject({ preserves: 'disk', consumesCheckpoint: true })
  await backend.close()
})

test('told what a pause keeps, it starts without asking; then every call says what is missing, and nothing is gone', async () => {
  serve()
  const fleet = await openFleet(kubernetes, { pause: 'disk' })
  const look = () => fleet.look('nobody')
  expect(await failure(look())).toMatchObject({
    type: 'sandbox_unreachable',
    message: expect.stringContaining('does not serve agents.x-k8s.io as v1beta1 or v1alpha1: install agent-sandbox'),
  })
  expect(await failure(fleet.backend.lists.instances(undefined, call()))).toMatchObject({ type: 'sandbox_unreachable' })
  serve('v2')
  expect((await failure(look())).message).toContain('but as v2')
  serve('v1beta1')
  expect(await look()).toEqual({ is: 'absent' })
})

test('set to keep memory where the cluster cannot, a pause says what to set, and the sandbox runs on', async () => {
  serve('v1beta1')
  const fleet = await openFleet(kubernetes, { pause: 'memory' })
  const target = await fleet.create()
  expect(await failure(fleet.suspend(target))).toMatchObject({
    type: 'sandbox_unreachable',
    message: expect.stringContaining('does not serve podsnapshot.gke.io/v1: set SANDMAN_KUBERNETES_PAUSE'),
  })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
})

test('of two versions the newer one is spoken', async () => {
  serve('v1alpha1', 'v1beta1')
  const fleet = await openFleet(kubernetes)
  kubernetes.requests.clear()
  await fleet.look('nobody')
  expect(kubernetes.requests.map(({ path }) => path)).toContain(
    `/apis/agents.x-k8s.io/v1beta1/namespaces/${namespace}/sandboxes/nobody`,
  )
})

test('a version that disappears while it runs is no reason to take anything for gone; another one is spoken from then on', async () => {
  serve('v1beta1')
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  serve('v1alpha1')
  expect(await failure(fleet.look(target.ref))).toMatchObject({
    type: 'sandbox_unreachable',
    message: expect.stringContaining('does not serve what was asked of it'),
  })
  const checkpointRef = await fleet.suspend(target)
  expect(kubernetes.get(SANDBOXES, nameOf(target.ref))?.spec).toMatchObject({ operatingMode: 'Suspended' })
  serve()
  await failure(fleet.look(target.ref))
  expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({ type: 'sandbox_unreachable' })
  expect(await failure(fleet.verify(checkpointRef))).toMatchObject({ type: 'sandbox_unreachable' })
  serve('v1beta1')
  expect(await fleet.resume(target.ref, checkpointRef)).not.toMatchObject({ incarnation: target.incarnation })
})

test('an output that is asked for in a version that is not served says so, and the next call asks anew', async () => {
  serve('v1beta1')
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create({ agent: { command: ['sleep', '1000'] } })
  serve('v1alpha1')
  const pieces = fleet.backend.attach(target.own, undefined, call())[Symbol.asyncIterator]()
  expect(await failure(Promise.resolve(pieces.next()))).toMatchObject({ type: 'sandbox_unreachable' })
  expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
  serve('v1beta1')
})

test.each([
  ['a gateway that knows no such page', GATEWAY.plain404],
  ['a gateway with trouble', GATEWAY.html502],
  ['nobody in particular', GATEWAY.untyped200],
  ['somebody who speaks of other things', { status: 200, body: { kind: 'APIGroup', versions: [] } }],
])('met by %s, it does not conclude that a pause keeps only files', async (_who, fault) => {
  serve('v1beta1')
  kubernetes.failNext({ path: /^\/apis$/ }, fault)
  await expect(openAgentSandboxBackend({ fleet: 'a', namespace, connection })).rejects.toThrow('what a pause')
  kubernetes.heal()
})

test('another namespace of the same name, or another cluster at the same address, knows nothing of what is here', async () => {
  serve('v1beta1')
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create()
  const checkpointRef = await fleet.suspend(target)
  await fleet.ask('DELETE', `/apis/agents.x-k8s.io/v1beta1/namespaces/${namespace}/sandboxes/${target.name}`)
  await kubernetes.when(SANDBOXES, target.name, (one) => one === undefined)
  const uid = '00000000-0000-4000-8000-000000000000'
  const another = { kind: 'Namespace', apiVersion: 'v1', metadata: { name: namespace, uid } }
  for (const ask of [
    () => fleet.look(target.ref),
    () => fleet.end(target.ref, null),
    () => fleet.verify(checkpointRef),
    () => fleet.wake(target.ref, checkpointRef),
  ]) {
    kubernetes.failNext({ path: /^\/api\/v1\/namespaces\/[^/]+$/ }, { status: 200, body: another })
    expect(await failure(ask())).toMatchObject({
      type: 'sandbox_unreachable',
      message: expect.stringContaining('Another cluster'),
    })
  }
  expect(await fleet.look(target.ref)).toEqual({ is: 'absent' })
  await fleet.end(target.ref, null)
})

test('what another namespace has is named by its place, and nobody here says that it is gone', async () => {
  serve('v1beta1')
  const fleet = await openFleet(kubernetes)
  const { ref } = await fleet.create()
  const elsewhere = ref.replace(/^[^/]+/, 'ffffffff')
  expect(await failure(fleet.look(elsewhere))).toMatchObject({ type: 'sandbox_unreachable' })
  expect(await failure(fleet.end(elsewhere, null))).toMatchObject({ type: 'sandbox_unreachable' })
})

test("another fleet's is not touched, whatever is asked", async () => {
  serve('v1beta1')
  const fleet = await openFleet(kubernetes)
  const others = await openFleet(kubernetes)
  const target = await others.create()
  for (const ask of [
    () => fleet.look(target.ref),
    () => fleet.suspend(target),
    () => fleet.end(target.ref, target.incarnation),
    () => fleet.backend.adopt(target.ref, { sandboxId: 'sbx_a', life: 'op_a' }, call()),
  ])
    expect(await failure(ask())).toMatchObject({ type: 'spec_invalid' })
  expect((await fleet.backend.lists.instances(undefined, call())).items).toEqual([])
  expect(await others.look(target.ref)).toMatchObject({ is: 'running', incarnation: target.incarnation })
})
