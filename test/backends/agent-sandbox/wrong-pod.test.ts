import { expect, test } from 'vitest'
import type { KubeObject } from '../../support/kubernetes/objects.ts'
import { call, failure, openFleet, serving, sh } from './setup.ts'

const kubernetes = await serving(['v1beta1'])

const hasFailed = (pod: KubeObject | undefined) => pod?.status?.phase === 'Failed'

// All pods of a sandbox have one name, and logs and commands are asked for by that.

test('the output of an agent does not go on with that of the next pod, whose log has the same name', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create({ agent: { command: sh('echo "I am $SANDMAN_ROOT"; sleep 0.5; exit 3') } })
  await kubernetes.when('pods', target.name, hasFailed)
  const heard: string[] = []
  for await (const piece of fleet.backend.attach(target.own, undefined, call())) {
    if (heard.length === 0) {
      // Whoever reads is slow, and a message wakes it meanwhile.
      await fleet.delete('pods', target.name)
      await kubernetes.when('pods', target.name, (pod) => pod?.metadata.uid !== target.incarnation && hasFailed(pod))
    }
    heard.push(Buffer.from(piece.bytes).toString())
  }
  expect(heard.join('')).toBe(`I am ${target.incarnation}\n`)
})

test('nor begins with it', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create({ agent: { command: sh('echo "I am $SANDMAN_ROOT"; exec sleep 1000') } })
  const reading = kubernetes.holdOnceAt('get pods/log')
  const heard: string[] = []
  const hearing = (async () => {
    for await (const piece of fleet.backend.attach(target.own, undefined, call())) {
      heard.push(Buffer.from(piece.bytes).toString())
      break
    }
  })()
  await reading.entered(1)
  await fleet.delete('pods', target.name)
  await fleet.replaced(target.name, target.incarnation)
  reading.open()
  await hearing
  expect(heard).toEqual([])
})

test('a command that was meant for a pod does not run in the next one', async () => {
  const fleet = await openFleet(kubernetes)
  const target = await fleet.create({ agent: { command: sh('exec sleep 1000') } })
  const entering = kubernetes.holdOnceAt('get pods/exec')
  const running = failure(fleet.backend.run(target, 'echo $SANDMAN_ROOT', call()))
  await entering.entered(1)
  await fleet.delete('pods', target.name)
  await fleet.replaced(target.name, target.incarnation)
  entering.open()
  expect(await running).toMatchObject({ type: 'overtaken' })
})
