import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { describe, expect, test } from 'vitest'
import type { KubeObject } from '../../support/kubernetes/objects.ts'
import { as, gone, refusal, running, setup, sh, watch } from './fake-setup.ts'
import { said } from './runtime-setup.ts'

type Status = {
  name: string
  state: { waiting?: { reason: string; message: string }; running?: object; terminated?: Record<string, unknown> }
  lastState: { terminated?: Record<string, unknown> }
  restartCount: number
  ready: boolean
}

const statusOf = (pod: KubeObject | undefined, name: string): Status | undefined =>
  [...listOf(pod, 'containerStatuses'), ...listOf(pod, 'initContainerStatuses')].find((one) => one.name === name)
const listOf = (pod: KubeObject | undefined, key: string) => (pod?.status?.[key] ?? []) as Status[]
const readiness = (pod: KubeObject | undefined) => {
  const conditions = (pod?.status?.conditions ?? []) as { type: string; status: string; reason?: string }[]
  return Object.fromEntries(
    conditions.map(({ type, status, reason }) => [type, reason ? `${status} ${reason}` : status]),
  )
}

describe('a pod', () => {
  test('is scheduled and started, and says so step by step', async () => {
    const { config, create, cluster } = await setup()
    const { events } = await watch(config, '/api/v1/namespaces/agents/pods', { resourceVersion: '0' })
    await create('a', { containers: [sh('agent', 'sleep 1000'), sh('tools', 'sleep 1000')] })
    const pod = await running(cluster, 'a')
    expect(readiness(pod)).toEqual({
      PodScheduled: 'True',
      Initialized: 'True',
      Ready: 'True',
      ContainersReady: 'True',
    })
    // Nobody is promised the order of the spec.
    expect(listOf(pod, 'containerStatuses').map(({ name }) => name)).toEqual(['tools', 'agent'])
    expect(statusOf(pod, 'agent')).toMatchObject({
      state: { running: {} },
      ready: true,
      started: true,
      restartCount: 0,
    })
    await expect.poll(() => events.at(-1)?.object.metadata.resourceVersion).toBe(pod?.metadata.resourceVersion)
    const steps = events.map(({ type, object }) => {
      const { state } = statusOf(object, 'agent') ?? {}
      return `${type} ${object.spec?.nodeName ?? '-'} ${object.status?.phase} ${state ? Object.keys(state)[0] : '-'}`
    })
    // Of two that start at once, one may be first.
    const distinct = [...new Set(steps)].filter((step) => step !== 'MODIFIED node-1 Pending running')
    expect(distinct).toEqual([
      'ADDED - Pending -',
      'MODIFIED node-1 Pending -',
      'MODIFIED node-1 Pending waiting',
      'MODIFIED node-1 Running running',
    ])
  })

  test('waits for a node, for its claims and for its images', async () => {
    const { create, cluster, core, namespace, fetch } = await setup({ schedulable: false })
    await create('a', {
      containers: [
        { ...sh('agent', 'sleep 1000'), image: 'late' },
        { name: 'odd', image: 'Not::An Image' },
      ],
      volumes: [{ name: 'home', persistentVolumeClaim: { claimName: 'home-a' } }],
    })
    const unscheduled = await cluster.when('pods', 'a', (pod) => readiness(pod).PodScheduled !== undefined)
    expect(readiness(unscheduled)).toEqual({ PodScheduled: 'False Unschedulable' })
    // It has no log, and that is no failure.
    const log = await fetch('/api/v1/namespaces/agents/pods/a/log?container=agent&follow=true')
    expect([log.status, await log.text()]).toEqual([200, ''])
    cluster.schedulable = true
    const claim = { metadata: { name: 'home-a' }, spec: { accessModes: ['ReadWriteOnce'] } }
    await core.createNamespacedPersistentVolumeClaim({ namespace, body: claim })
    const waits = (reason: string) =>
      cluster.when('pods', 'a', (pod) => statusOf(pod, 'agent')?.state.waiting?.reason === reason)
    const refused = await waits('ErrImagePull')
    expect(statusOf(refused, 'agent')?.state.waiting?.message).toContain(
      'failed to pull and unpack image "docker.io/library/late:latest": failed to resolve reference "docker.io/library/late:latest": docker.io/library/late:latest: not found',
    )
    expect(statusOf(await waits('ImagePullBackOff'), 'odd')?.state.waiting?.reason).toBe('InvalidImageName')
    const early = core.readNamespacedPodLog({ name: 'a', namespace, container: 'agent' })
    expect(await refusal(early)).toMatchObject({
      code: 400,
      message: expect.stringMatching(
        /^container "agent" in pod "a" is waiting to start: (trying and failing to pull image|image can't be pulled)$/,
      ),
    })
    cluster.addImage('late')
    await cluster.when('pods', 'a', (pod) => statusOf(pod, 'agent')?.state.running !== undefined)
    expect(cluster.get('pods', 'a')?.status?.phase).toBe('Pending')
  })

  test('goes on running when its agent has died and its sidecar lives', async () => {
    const { create, cluster } = await setup()
    await create('a', { containers: [sh('agent', 'exit 3'), sh('tools', 'sleep 1000')] })
    const pod = await cluster.when(
      'pods',
      'a',
      (pod) => readiness(pod).Ready === 'False ContainersNotReady' && pod?.status?.phase === 'Running',
    )
    expect(statusOf(pod, 'agent')).toMatchObject({
      state: {
        terminated: {
          exitCode: 3,
          reason: 'Error',
          containerID: expect.stringMatching(/^containerd:\/\/[0-9a-f]{64}$/),
        },
      },
      ready: false,
    })
    expect(statusOf(pod, 'tools')).toMatchObject({ state: { running: {} }, ready: true })
    await cluster.terminateContainer('a', 'tools', { exitCode: 0, reason: 'Completed' })
    const ended = await cluster.when('pods', 'a', (pod) => pod?.status?.phase === 'Failed')
    expect(readiness(ended)).toMatchObject({ Ready: 'False PodFailed' })
  })

  test('stops its native sidecar when all else has ended', async () => {
    const { create, cluster, core, namespace } = await setup()
    const script = 'trap "exit 0" TERM; echo ready; while :; do sleep 0.01; done'
    const agent = {
      ...sh('agent', 'until [ -e $FILE ]; do sleep 0.01; done'),
      env: [{ name: 'FILE', value: '/data/go' }],
    }
    await core.createNamespacedPersistentVolumeClaim({ namespace, body: { metadata: { name: 'd' } } })
    await create('a', {
      initContainers: [{ ...sh('tools', script), restartPolicy: 'Always' }, sh('first', 'echo done')],
      containers: [{ ...agent, volumeMounts: [{ name: 'data', mountPath: '/data' }] }],
      volumes: [{ name: 'data', persistentVolumeClaim: { claimName: 'd' } }],
    })
    const pod = await running(cluster, 'a')
    expect(listOf(pod, 'initContainerStatuses').map(({ name }) => name)).toEqual(['first', 'tools'])
    expect(statusOf(pod, 'first')).toMatchObject({
      state: { terminated: { exitCode: 0, reason: 'Completed' } },
      ready: true,
    })
    expect(statusOf(pod, 'tools')?.state.running).toBeDefined()
    await said(cluster.container('a', 'tools'), 'ready')
    writeFileSync(path.join(cluster.folderOfClaim('d'), 'go'), '')
    const ended = await cluster.when('pods', 'a', (pod) => pod?.status?.phase === 'Succeeded')
    expect(statusOf(ended, 'tools')?.state.terminated).toMatchObject({ exitCode: 0 })
  })

  test('has no native sidecars in an older cluster', async () => {
    const { create } = await setup({ version: 'v1.28.3' })
    const initContainers = [{ ...sh('tools', ':'), restartPolicy: 'Always' }]
    expect(await refusal(create('a', { initContainers }))).toMatchObject({
      code: 422,
      message:
        'Pod "a" is invalid: spec.initContainers[0].restartPolicy: Forbidden: may not be set for init containers',
    })
  })

  test('fails with what has to come first', async () => {
    const { create, cluster } = await setup()
    await create('a', { initContainers: [sh('first', 'exit 1')] })
    const pod = await cluster.when('pods', 'a', (pod) => pod?.status?.phase === 'Failed')
    expect(statusOf(pod, 'agent')?.state.waiting?.reason).toBe('PodInitializing')
  })

  test.each([
    ['Always', 0],
    ['OnFailure', 1],
  ])('begins again what has ended if it is to (%s), and then more and more slowly', async (restartPolicy, code) => {
    const { create, cluster, core, namespace } = await setup()
    await create('a', { restartPolicy, containers: [sh('agent', `echo hello; exit ${code}`)] })
    const pod = await cluster.when(
      'pods',
      'a',
      (pod) => statusOf(pod, 'agent')?.state.waiting?.reason === 'CrashLoopBackOff',
    )
    expect(statusOf(pod, 'agent')).toMatchObject({
      restartCount: 1,
      lastState: { terminated: { exitCode: code } },
      state: {
        waiting: {
          message: expect.stringMatching(/^back-off 10s restarting failed container=agent pod=a_agents\(.+\)$/),
        },
      },
    })
    expect(pod?.status?.phase).toBe('Running')
    expect(await core.readNamespacedPodLog({ name: 'a', namespace, previous: true })).toBe('hello\n')
  })

  test('has lost its turn when its agent was begun again', async () => {
    const { run, cluster } = await setup()
    await run('a', 'sleep 1000')
    await cluster.restartContainer('a', 'agent', { exitCode: 137, reason: 'OOMKilled' })
    const pod = await cluster.when(
      'pods',
      'a',
      (pod) => statusOf(pod, 'agent')?.restartCount === 1 && statusOf(pod, 'agent')?.ready === true,
    )
    expect(statusOf(pod, 'agent')).toMatchObject({
      state: { running: {} },
      lastState: { terminated: { exitCode: 137, reason: 'OOMKilled' } },
    })
  })

  test('is told of later than the end of its output, if its kubelet is slow', async () => {
    const { run, cluster, fetch } = await setup({ statusLagMs: 200 })
    await run('a', 'echo hello')
    const log = await fetch('/api/v1/namespaces/agents/pods/a/log?follow=true')
    expect(await log.text()).toBe('hello\n')
    expect(cluster.get('pods', 'a')?.status?.phase).toBe('Running')
    cluster.lagStatus(0)
    await cluster.when('pods', 'a', (pod) => pod?.status?.phase === 'Succeeded')
  })

  test('takes what it is given: environment, dollars, memory, and the folders of its volumes', async () => {
    const { create, cluster, core, namespace } = await setup()
    await core.createNamespacedSecret({ namespace, body: { metadata: { name: 's' }, data: { key: btoa('secret') } } })
    const env = [
      { name: 'ONE', value: '1' },
      { name: 'TWO', value: '$(ONE)$(ONE) $$(ONE) $(NONE)' },
      { name: 'NAME', valueFrom: { fieldRef: { fieldPath: 'metadata.name' } } },
      { name: 'SECRET', valueFrom: { secretKeyRef: { name: 's', key: 'key' } } },
      { name: 'DATA', value: '/data/in' },
    ]
    const script = 'echo "$TWO $NAME $SECRET"; echo $(ONE) $$ $(HOSTNAME); echo kept > "$DATA"; sleep 1000'
    const agent = {
      ...sh('agent', script),
      env,
      volumeMounts: [{ name: 'data', mountPath: '/data' }],
      resources: { limits: { memory: '64Mi' } },
      securityContext: { readOnlyRootFilesystem: true },
    }
    await core.createNamespacedPersistentVolumeClaim({ namespace, body: { metadata: { name: 'd' } } })
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'd' } }]
    await create('a', { containers: [agent], volumes })
    await running(cluster, 'a')
    const kept = path.join(cluster.folderOfClaim('d'), 'in')
    await expect.poll(() => existsSync(kept) && readFileSync(kept, 'utf8')).toBe('kept\n')
    const log = () => core.readNamespacedPodLog({ name: 'a', namespace })
    await expect.poll(log).toBe('11 $(ONE) $(NONE) a secret\n1 $ a\n')
    await core.deleteNamespacedPod({ name: 'a', namespace })
    // A claim stays as long as a pod uses it, and its files as long as the claim.
    await core.deleteNamespacedPersistentVolumeClaim({ name: 'd', namespace })
    expect(cluster.get('pods', 'a')?.metadata.deletionTimestamp).toBeDefined()
    expect(cluster.get('persistentvolumeclaims', 'd')?.metadata.deletionTimestamp).toBeDefined()
    expect(existsSync(kept)).toBe(true)
    await gone(cluster, 'd', 'persistentvolumeclaims')
    expect(cluster.get('pods', 'a')).toBeUndefined()
    await expect.poll(() => existsSync(kept)).toBe(false)
  })

  test('finds in a claim what another pod has left there', async () => {
    const { run, cluster, core, namespace } = await setup()
    await core.createNamespacedPersistentVolumeClaim({ namespace, body: { metadata: { name: 'd' } } })
    const volumes = [{ name: 'data', persistentVolumeClaim: { claimName: 'd' } }]
    const volumeMounts = [{ name: 'data', mountPath: '/data' }]
    const containers = [{ ...sh('agent', 'cat $FILE'), env: [{ name: 'FILE', value: '/data/x' }], volumeMounts }]
    await run('a', '', { containers: [{ ...sh('agent', 'sleep 1000'), volumeMounts }], volumes })
    writeFileSync(path.join(cluster.folderOfClaim('d'), 'x'), 'from before')
    await core.deleteNamespacedPod({ name: 'a', namespace })
    await gone(cluster, 'a')
    await run('b', '', { containers, volumes })
    await cluster.when('pods', 'b', (pod) => pod?.status?.phase === 'Succeeded')
    expect(await core.readNamespacedPodLog({ name: 'b', namespace })).toMatch(/^from before\n?$/)
  })
})

describe('a deletion', () => {
  test('gives a pod its time, and can only be made shorter', async () => {
    const { run, cluster, core, namespace, config } = await setup({ graceScale: 1_000 })
    await run('a', 'trap "echo no" TERM; echo ready; while :; do sleep 0.01; done')
    await said(cluster.container('a', 'agent'), 'ready')
    const { events } = await watch(config, '/api/v1/namespaces/agents/pods', { resourceVersion: '0' })
    const asked = await core.deleteNamespacedPod({ name: 'a', namespace })
    expect(asked.metadata).toMatchObject({ deletionGracePeriodSeconds: 30 })
    expect(asked.metadata?.deletionTimestamp?.getTime()).toBeGreaterThan(Date.now() + 28_000)
    expect(asked.status?.phase).toBe('Running')
    await expect.poll(() => core.readNamespacedPodLog({ name: 'a', namespace })).toContain('no')
    const longer = await core.deleteNamespacedPod({ name: 'a', namespace, gracePeriodSeconds: 60 })
    expect(longer.metadata?.deletionGracePeriodSeconds).toBe(30)
    await core.deleteNamespacedPod({ name: 'a', namespace, gracePeriodSeconds: -1 })
    await gone(cluster, 'a')
    await expect.poll(() => events.at(-1)?.type).toBe('DELETED')
    expect(statusOf(events.at(-1)?.object, 'agent')?.state.terminated).toMatchObject({ exitCode: 137 })
  })

  test('by force is done at once, and ends what ran', async () => {
    const { run, cluster, core, namespace } = await setup()
    await run('a', 'trap "" TERM; sleep 1000')
    const container = cluster.container('a', 'agent')
    await core.deleteNamespacedPod({ name: 'a', namespace, gracePeriodSeconds: 0 })
    expect(cluster.get('pods', 'a')).toBeUndefined()
    expect(await container.ended).toMatchObject({ exitCode: 137 })
    // A successor has nothing of it.
    await run('a', 'sleep 1000')
    expect(cluster.container('a', 'agent')).not.toBe(container)
  })

  test('by time is what a deadline does', async () => {
    const { run, cluster } = await setup()
    await run('a', 'sleep 1000', { activeDeadlineSeconds: 100 })
    cluster.advance(101_000)
    const pod = await cluster.when('pods', 'a', (pod) => pod?.status?.phase === 'Failed')
    expect(pod?.status).toMatchObject({ reason: 'DeadlineExceeded' })
  })
})

describe('a node', () => {
  test.each([true, false])('that has run short evicts a pod, and may keep nothing of it (%s)', async (dropStatuses) => {
    const { run, cluster } = await setup()
    await run('a', 'sleep 1000', { restartPolicy: 'Always' })
    const { ended } = cluster.container('a', 'agent')
    await cluster.evict('a', { dropStatuses })
    await ended
    const pod = cluster.get('pods', 'a')
    expect(pod?.status).toMatchObject({ phase: 'Failed', reason: 'Evicted' })
    expect(readiness(pod).DisruptionTarget).toBe('True TerminationByKubelet')
    if (dropStatuses) expect(pod?.status).not.toHaveProperty('containerStatuses')
    else
      expect(statusOf(pod, 'agent')?.state.terminated).toEqual({
        exitCode: 137,
        reason: 'ContainerStatusUnknown',
        message: 'The container could not be located when the pod was terminated',
        startedAt: null,
        finishedAt: null,
      })
  })

  test('that is lost keeps what runs there, and tells nothing of it', async () => {
    const { run, cluster, core, namespace } = await setup()
    await run('a', 'sleep 1000')
    const container = cluster.container('a', 'agent')
    cluster.loseNode('a', { isEvicted: true })
    expect(readiness(cluster.get('pods', 'a')).Ready).toBe('Unknown NodeStatusUnknown')
    expect(cluster.get('pods', 'a')?.metadata.deletionTimestamp).toBeDefined()
    expect(statusOf(cluster.get('pods', 'a'), 'agent')?.state.running).toBeDefined()
    expect(await refusal(core.readNamespacedPodLog({ name: 'a', namespace }))).toMatchObject({ code: 500 })
    await core.deleteNamespacedPod({ name: 'a', namespace, gracePeriodSeconds: 0 })
    expect(cluster.get('pods', 'a')).toBeUndefined()
    expect(container.end).toBeUndefined()
  })

  test('that is back does what was asked of it meanwhile', async () => {
    const { run, cluster, core, namespace } = await setup()
    await run('a', 'sleep 1000')
    cluster.loseNode('a')
    await core.deleteNamespacedPod({ name: 'a', namespace, gracePeriodSeconds: 1 })
    expect(cluster.container('a', 'agent').end).toBeUndefined()
    await cluster.returnNode('a')
    await gone(cluster, 'a')
  })

  test('with ten thousand pods lists and watches them in no time', async () => {
    const { cluster, fetch, core, namespace, config } = await setup()
    cluster.seed(10_000, (n) => ({ metadata: { name: `p${n}`, labels: { fleet: n % 2 ? 'a' : 'b' } } }))
    const list = async (query = '') => {
      const response = await fetch(`/api/v1/namespaces/agents/pods${query}`)
      return ((await response.json()) as { items: KubeObject[] }).items
    }
    expect(await list()).toHaveLength(10_000)
    // By its own work, and not by how much else this machine has to do.
    const began = process.cpuUsage()
    expect(await list()).toHaveLength(10_000)
    expect(await list('?labelSelector=fleet%3Da')).toHaveLength(5_000)
    expect(await list('?limit=500')).toHaveLength(500)
    const { events } = await watch(config, '/api/v1/namespaces/agents/pods', { labelSelector: 'fleet=a' })
    await expect.poll(() => events.length).toBe(5_000)
    const { user, system } = process.cpuUsage(began)
    expect((user + system) / 1000).toBeLessThan(5_000)
    await core.patchNamespacedPod(
      { name: 'p1', namespace, body: { metadata: { labels: { x: 'y' } } } },
      as('MergePatch'),
    )
    await core.deleteNamespacedPod({ name: 'p1', namespace })
    await gone(cluster, 'p1')
  })
})
