import { readFile, rm, writeFile } from 'node:fs/promises'
import { describe, expect, test } from 'vitest'
import { conditionOf, type KubeObject } from '../../support/kubernetes/objects.ts'
import { startCluster } from '../kubernetes/setup.ts'
import { failure, openFleet, SANDBOXES, serving, sh } from './setup.ts'

const kubernetes = await serving(['v1beta1'])

describe('what it is just now', () => {
  test('asked to sleep, while its controller does nothing, it is changing, and is said to be', async () => {
    const fleet = await openFleet(kubernetes)
    const { ref, name, incarnation } = await fleet.create()
    kubernetes.pauseController()
    await fleet.patch(name, { spec: { operatingMode: 'Suspended' } })
    expect(await fleet.look(ref)).toEqual({ is: 'changing', why: 'it is being put to sleep', incarnation })
    // Without its pod it might be made anew: nobody has seen the wish.
    await fleet.delete('pods', name)
    await kubernetes.when('pods', name, (pod) => pod === undefined)
    expect(await fleet.look(ref)).toEqual({ is: 'changing', why: 'its controller has not put it to sleep yet' })
    kubernetes.resumeController()
    await expect.poll(() => fleet.look(ref)).toMatchObject({ is: 'suspended' })
  })

  test('a controller that says its pod is still ending is believed, also when that is not there any more', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    const removing = kubernetes.holdController('delete pod')
    const suspending = fleet.suspend(target)
    await removing.entered(1)
    const isTold = (one: KubeObject | undefined) =>
      one !== undefined && conditionOf(one, 'Suspended')?.reason === 'PodTerminating'
    removing.open()
    await kubernetes.when(SANDBOXES, target.name, isTold)
    kubernetes.pauseController()
    await kubernetes.when('pods', target.name, (pod) => pod === undefined)
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'changing' })
    kubernetes.resumeController()
    await suspending
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'suspended' })
  })

  test('what its controller said of what was asked before is not believed', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    const checkpointRef = await fleet.suspend(target)
    kubernetes.pauseController()
    const waking = fleet.wake(target.ref, checkpointRef)
    await kubernetes.when(SANDBOXES, target.name, (one) => one?.spec?.operatingMode === 'Running')
    // It still says that it is suspended, and so on, of the generation before.
    expect(conditionOf(fleet.sandbox(target.name), 'Suspended')?.status).toBe('True')
    expect(await fleet.look(target.ref)).toEqual({ is: 'changing', why: 'it has no pod yet' })
    kubernetes.resumeController()
    await waking
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
  })

  test('a pod that bears its name and is not its own is not its pod', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    const checkpointRef = await fleet.suspend(target)
    const path = `/api/v1/namespaces/${kubernetes.namespace}/pods`
    const containers = [{ name: 'agent', image: 'sandman-test', command: ['sleep', '1000'] }]
    await fleet.ask('POST', path, { metadata: { name: target.name }, spec: { containers } })
    await kubernetes.when('pods', target.name, (pod) => pod?.status?.phase === 'Running')
    expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
    await fleet.patch(target.name, { spec: { operatingMode: 'Running' } })
    await expect
      .poll(() => fleet.look(target.ref))
      .toMatchObject({
        is: 'changing',
        why: expect.stringContaining('ReconcilerError'),
      })
    await fleet.delete('pods', target.name)
    await expect.poll(() => fleet.look(target.ref)).toMatchObject({ is: 'running' })
  })

  test('one that somebody else has put to sleep sleeps on how it was then, and each time on another', async () => {
    const fleet = await openFleet(kubernetes)
    const { ref, name } = await fleet.create()
    const known: unknown[] = []
    for (let nth = 1; nth <= 2; nth++) {
      await fleet.patch(name, { spec: { operatingMode: 'Suspended' } })
      await expect.poll(() => fleet.look(ref)).toMatchObject({ is: 'suspended' })
      const seen = await fleet.look(ref)
      if (seen.is !== 'suspended') return expect.unreachable()
      expect(seen.checkpointRef).toBe(`${ref}@g${fleet.sandbox(name).metadata.generation}`)
      expect(await fleet.verify(seen.checkpointRef as string)).toEqual({ is: 'ready' })
      known.push(seen.checkpointRef)
      await fleet.resume(ref, seen.checkpointRef)
    }
    expect(new Set(known).size).toBe(2)
  })

  test('woken by somebody else, it sleeps the next time on something else than before', async () => {
    const fleet = await openFleet(kubernetes)
    const { ref, name, incarnation } = await fleet.create()
    const first = await fleet.suspend({ ref, incarnation })
    await fleet.patch(name, { spec: { operatingMode: 'Running' } })
    await expect.poll(() => fleet.look(ref)).toMatchObject({ is: 'running' })
    expect(fleet.mark(name, 'sleepsOn')).toBeUndefined()
    await fleet.patch(name, { spec: { operatingMode: 'Suspended' } })
    await expect.poll(() => fleet.look(ref)).toMatchObject({ is: 'suspended' })
    expect(await fleet.look(ref)).not.toMatchObject({ checkpointRef: first })
  })

  test('a pod that somebody deletes is made again by the controller, and is another incarnation', async () => {
    const fleet = await openFleet(kubernetes)
    const { ref, name, incarnation } = await fleet.create()
    await fleet.delete('pods', name)
    await fleet.replaced(name, incarnation)
    const now = await fleet.awake(ref)
    expect(now.incarnation).not.toBe(incarnation)
    expect(await failure(fleet.end(ref, incarnation))).toMatchObject({ type: 'overtaken' })
  })

  test('one whose time somebody has set, and is over, sleeps; to resume it takes that time away', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    await fleet.run(target, 'echo kept > kept')
    await fleet.patch(target.name, { spec: { shutdownTime: new Date(Date.now() - 1_000).toISOString() } })
    await expect.poll(() => fleet.look(target.ref)).toMatchObject({ is: 'suspended' })
    const { checkpointRef } = (await fleet.look(target.ref)) as { checkpointRef: string }
    const awake = await fleet.resume(target.ref, checkpointRef)
    expect(await fleet.run(awake, 'cat kept')).toBe('kept\n')
    expect(fleet.sandbox(target.name).spec?.shutdownTime).toBeUndefined()
  })

  test('one that nobody has labelled is only looked at', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    const labels = { 'sandman.fleet': null, 'sandman.sandbox': null, 'sandman.life': null, 'sandman.backend': null }
    await fleet.patch(target.name, { metadata: { labels, annotations: { 'sandman.volumes': null } } })
    const { resourceVersion } = fleet.sandbox(target.name).metadata
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
    expect(fleet.sandbox(target.name).metadata.resourceVersion).toBe(resourceVersion)
  })
})

describe('waking', () => {
  test('it is not over before its pod is ready, by what the controller says of what was asked last', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    const checkpointRef = await fleet.suspend(target)
    const telling = kubernetes.holdController('write status')
    let isOver = false
    const waking = fleet.wake(target.ref, checkpointRef).then(() => {
      isOver = true
    })
    await kubernetes.when(
      'pods',
      target.name,
      (pod) => pod !== undefined && conditionOf(pod, 'Ready')?.status === 'True',
    )
    // What is written of it is that it is ready, but of a generation that was.
    kubernetes.cluster.store.change(SANDBOXES, fleet.sandbox(target.name), (draft) => {
      const conditions = [{ type: 'Ready', status: 'True', reason: 'DependenciesReady', observedGeneration: 1 }]
      draft.status = { ...draft.status, conditions }
    })
    kubernetes.requests.clear()
    await expect.poll(() => kubernetes.requests.count('get', 'pods')).toBeGreaterThan(3)
    expect(isOver).toBe(false)
    telling.open()
    await waking
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'running' })
  })

  test('nor while only its controller says that it is ready, which may have been another pod', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    const checkpointRef = await fleet.suspend(target)
    const telling = kubernetes.holdController('write status')
    let isOver = false
    const waking = fleet.wake(target.ref, checkpointRef).then(() => {
      isOver = true
    })
    const isReady = (pod: KubeObject | undefined) => pod !== undefined && conditionOf(pod, 'Ready')?.status === 'True'
    const pod = (await kubernetes.when('pods', target.name, isReady)) as KubeObject
    const { store } = kubernetes.cluster
    const say = (status: 'True' | 'False') =>
      store.change('pods', pod, (draft) => {
        const conditions = ['Ready', 'ContainersReady'].map((type) => ({ type, status, reason: 'ContainersNotReady' }))
        draft.status = { ...draft.status, conditions }
      })
    say('False')
    store.change(SANDBOXES, fleet.sandbox(target.name), (draft) => {
      const observedGeneration = draft.metadata.generation
      const conditions = [{ type: 'Ready', status: 'True', reason: 'DependenciesReady', observedGeneration }]
      draft.status = { ...draft.status, conditions }
    })
    kubernetes.requests.clear()
    await expect.poll(() => kubernetes.requests.count('get', 'pods')).toBeGreaterThan(3)
    expect(isOver).toBe(false)
    say('True')
    telling.open()
    await waking
  })

  test('a pod that was evicted has left its files, and is replaced; its own files are not what is lost', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create({ agent: { command: ['sleep', '1000'] } })
    await fleet.run(target, 'echo kept > kept')
    await kubernetes.evict(target.name)
    const checkpointRef = `${target.ref}@${target.incarnation}`
    expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef })
    expect(await fleet.verify(checkpointRef)).toEqual({ is: 'ready' })
    const awake = await fleet.resume(target.ref, checkpointRef)
    expect(awake.incarnation).not.toBe(target.incarnation)
    expect(await fleet.run(awake, 'cat kept')).toBe('kept\n')
    // Once more, before anybody has written down that it was awake.
    await kubernetes.evict(target.name)
    expect(await fleet.verify(checkpointRef)).toEqual({ is: 'ready' })
    await fleet.resume(target.ref, checkpointRef)
  })

  test('pods that end again and again are replaced twice; then it says so, and can be woken from the same still', async () => {
    const volumeMounts = [{ name: 'workspace', mountPath: '/workspace' }]
    const command = sh('echo >> begins; [ ! -e ends ]')
    const initContainers = [{ name: 'check', image: 'sandman-test', command, workingDir: '/workspace', volumeMounts }]
    const fleet = await openFleet(kubernetes, { podSpec: { initContainers } })
    const target = await fleet.create()
    const checkpointRef = await fleet.suspend(target)
    const folder = kubernetes.folderOfClaim(`workspace-${target.name}`)
    await writeFile(`${folder}/ends`, '')
    for (let nth = 1; nth <= 2; nth++) {
      expect(await failure(fleet.wake(target.ref, checkpointRef))).toMatchObject({
        type: 'sandbox_unreachable',
        message: expect.stringContaining('was woken, and has ended again: its pod has ended'),
      })
      expect((await readFile(`${folder}/begins`, 'utf8')).length).toBe(1 + 3 * nth)
      // Nobody has seen it awake, so what it was put to sleep as is what it sleeps on.
      expect(await fleet.verify(checkpointRef)).toEqual({ is: 'ready' })
    }
    await rm(`${folder}/ends`)
    const awake = await fleet.resume(target.ref, checkpointRef)
    expect(await fleet.verify(checkpointRef)).toMatchObject({ is: 'missing' })
    expect(await fleet.suspend(awake)).not.toBe(checkpointRef)
  })

  test('one that ends before anybody has written down that it is awake is woken from the same once more', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create({ agent: { command: ['sleep', '1000'] } })
    const checkpointRef = await fleet.suspend(target)
    for (let nth = 1; nth <= 2; nth++) {
      await fleet.resume(target.ref, checkpointRef)
      await kubernetes.evict(target.name)
      expect(await fleet.look(target.ref)).toMatchObject({ is: 'suspended' })
      expect(await fleet.verify(checkpointRef)).toEqual({ is: 'ready' })
    }
    await fleet.resume(target.ref, checkpointRef)
  })

  test('what it sleeps on now is not woken for who means an earlier pause', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    const first = await fleet.suspend(target)
    const second = await fleet.suspend(await fleet.resume(target.ref, first))
    expect(await failure(fleet.wake(target.ref, first))).toMatchObject({
      type: 'checkpoint_missing',
      message: expect.stringContaining(second),
    })
    expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef: second })
  })

  test('while its controller is down it is changing, and comes to rest when that is back', async () => {
    const fleet = await openFleet(kubernetes)
    const target = await fleet.create()
    kubernetes.pauseController()
    const soon = { signal: AbortSignal.timeout(700) }
    await expect(fleet.pausing.suspend(target, { key: 'op_a' }, soon)).rejects.toMatchObject({ name: 'TimeoutError' })
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'changing', incarnation: target.incarnation })
    kubernetes.resumeController()
    await expect.poll(() => fleet.look(target.ref)).toMatchObject({ is: 'suspended' })
  })
})

describe('with a controller that never takes back that it is suspended', async () => {
  const old = await startCluster({ graceScale: 5, serve: { sandboxes: ['v1beta1'] }, staleSuspended: true })

  test('one that was resumed is awake, and can be put to sleep again', async () => {
    const fleet = await openFleet(old)
    const target = await fleet.create()
    const awake = await fleet.resume(target.ref, await fleet.suspend(target))
    expect(conditionOf(fleet.sandbox(target.name), 'Suspended')?.status).toBe('True')
    expect(await fleet.look(target.ref)).toMatchObject({ is: 'running', incarnation: awake.incarnation })
    const next = await fleet.suspend(awake)
    expect(next).toBe(`${target.ref}@${awake.incarnation}`)
    expect(await fleet.look(target.ref)).toEqual({ is: 'suspended', checkpointRef: next })
  })
})
