import { describe, expect, test } from 'vitest'
import { type Pod, podOf, type WirePod } from '../../../src/backends/kubernetes/pod.ts'
import { POD_RULES, stateOf } from '../../../src/backends/kubernetes/pod-state.ts'
import { ownStatus } from '../../../src/backends/kubernetes/status.ts'
import { sightingOf } from '../../../src/backends/kubernetes/targets.ts'

const UID = '0b7f3c1e-58a5-4c61-9d2e-0e6f6a4c1d11'
const AT = '2026-11-17T09:30:00Z'

type Status = NonNullable<WirePod['status']>
type Told = { status?: object; spec?: object; metadata?: object }

/** As an API server shows it. */
function pod({ status = {}, spec = {}, metadata = {} }: Told = {}): Pod {
  return podOf({
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name: 'p', uid: UID, resourceVersion: '7', ...metadata },
    spec: {
      restartPolicy: 'Never',
      nodeName: 'node-1',
      containers: [{ name: 'agent' }, { name: 'tool-server' }],
      ...spec,
    },
    status: { phase: 'Running', conditions: ready(), ...status } as Status,
  })
}

const condition = (type: string, status: string, more: object = {}) => ({
  type,
  status,
  lastTransitionTime: AT,
  ...more,
})
const ready = (...more: object[]) => {
  const all = ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map((type) => condition(type, 'True'))
  const types = more.map((each) => (each as { type: string }).type)
  return [...all.filter(({ type }) => !types.includes(type)), ...more]
}
const container = (name: string, state: object, more: object = {}) => ({
  name,
  state,
  lastState: {},
  ready: 'running' in state,
  restartCount: 0,
  image: 'x',
  imageID: 'x',
  ...more,
})
const RUNNING = { running: { startedAt: AT } }
const ended = (exitCode: number, reason = 'Error', more: object = {}) => ({
  terminated: { exitCode, reason, startedAt: AT, finishedAt: AT, containerID: 'containerd://x', ...more },
})
const sidecar = container('tool-server', RUNNING)
const NOT_READY = condition('Ready', 'False', { reason: 'ContainersNotReady' })
/** What a node says that cannot find a container any more. */
const UNKNOWN = ended(137, 'ContainerStatusUnknown', {
  message: 'The container could not be located when the pod was terminated',
  startedAt: null,
  finishedAt: null,
})
const EVICTED = {
  phase: 'Failed',
  reason: 'Evicted',
  message: 'The node was low on resource: memory. ',
  conditions: ready(
    condition('DisruptionTarget', 'True', { reason: 'TerminationByKubelet', message: 'The node was low on resource' }),
  ),
}
const deleted = { deletionTimestamp: '2026-11-17T09:35:00Z', deletionGracePeriodSeconds: 30 }

describe('a pod is', () => {
  test('running while its agent is, whatever ran beside it', () => {
    const containerStatuses = [container('tool-server', ended(1)), container('agent', RUNNING)]
    const conditions = ready(NOT_READY, { ...NOT_READY, type: 'ContainersReady' })
    expect(stateOf(pod({ status: { containerStatuses, conditions } }))).toEqual({ is: 'running' })
  })

  test('ended when its agent is, although its phase is Running and its sidecar lives (incident C)', () => {
    for (const containerStatuses of [
      [sidecar, container('agent', ended(137, 'OOMKilled'))],
      [container('agent', ended(137, 'OOMKilled')), sidecar],
    ])
      expect(stateOf(pod({ status: { containerStatuses, conditions: ready(NOT_READY) } }))).toMatchObject({
        is: 'ended',
        how: { exitCode: 137, reason: 'OOMKilled' },
        why: 'its agent has ended with exit code 137: OOMKilled',
      })
  })

  test('ended in its own way, also when it was evicted after that, or its node was lost', () => {
    const containerStatuses = [container('agent', ended(0, 'Completed'))]
    const lost = { containerStatuses, conditions: ready(condition('Ready', 'Unknown')) }
    for (const status of [{ ...EVICTED, containerStatuses }, lost, { containerStatuses, phase: 'Unknown' }])
      expect(stateOf(pod({ status })).is).toBe('ended')
    expect(stateOf(pod({ status: { containerStatuses }, metadata: deleted })).is).toBe('ended')
  })

  test.each([
    ['without a word of its containers', {}],
    ['with containers that nobody could find', { containerStatuses: [container('agent', UNKNOWN)] }],
    ['with containers that are said to run', { containerStatuses: [container('agent', RUNNING), sidecar] }],
  ])('evicted, %s', (_how, more) => {
    const state = stateOf(pod({ status: { ...EVICTED, ...more } }))
    expect(state).toEqual({ is: 'evicted', why: 'its pod has ended: Evicted (The node was low on resource: memory. )' })
  })

  test.each(['DeadlineExceeded', 'NodeShutdown', 'Terminated', 'Preempting', 'UnexpectedAdmissionError'])(
    'ended for what its node says of the pod as a whole: %s',
    (reason) => {
      const state = stateOf(pod({ status: { phase: 'Failed', reason, conditions: [] } }))
      expect(state).toEqual({ is: 'evicted', why: `its pod has ended: ${reason}` })
    },
  )

  test('ended when it is over and nobody says why', () => {
    expect(stateOf(pod({ status: { phase: 'Succeeded', conditions: [] } }))).toMatchObject({
      is: 'evicted',
      why: 'its pod has ended: Succeeded',
    })
  })

  test.each([
    ['a node that does not answer', { conditions: ready(condition('Ready', 'Unknown')) }],
    ['the word of the node controller', { conditions: ready(condition('Ready', 'False')) }],
    ['an old phase', { phase: 'Unknown' }],
    ['an old reason', { reason: 'NodeLost' }],
  ])('of a lost node, by %s', (_how, told) => {
    const containerStatuses = [container('agent', RUNNING), sidecar]
    expect(stateOf(pod({ status: { containerStatuses, ...told } }))).toEqual({
      is: 'node lost',
      why: 'its node node-1 does not answer',
    })
    expect(stateOf(pod({ status: { containerStatuses, ...told }, metadata: deleted }))).toEqual({
      is: 'node lost',
      why: 'its node node-1 does not answer, and it was to be deleted',
    })
  })

  test('not of a lost node when only somebody else has not called it ready', () => {
    const notReady = condition('Ready', 'False', { reason: 'ReadinessGatesNotReady' })
    const status = { containerStatuses: [container('agent', RUNNING)], conditions: ready(notReady) }
    expect(stateOf(pod({ status })).is).toBe('running')
  })

  test('terminating when it was deleted, although all of it still runs', () => {
    const status = { containerStatuses: [container('agent', RUNNING)] }
    expect(stateOf(pod({ status, metadata: deleted }))).toEqual({
      is: 'terminating',
      why: 'it is being deleted, by 2026-11-17T09:35:00Z',
    })
  })

  test.each([
    'ErrImagePull',
    'ImagePullBackOff',
    'InvalidImageName',
    'CreateContainerConfigError',
    'RunContainerError',
  ])('refused for %s', (reason) => {
    const waiting = container('agent', { waiting: { reason, message: 'no such thing' } })
    expect(stateOf(pod({ status: { phase: 'Pending', containerStatuses: [waiting], conditions: [] } }))).toEqual({
      is: 'refused',
      reason,
      why: `its container does not start: ${reason} (no such thing)`,
    })
  })

  test('starting on its node, before anything is said of its containers and after', () => {
    const creating = [container('agent', { waiting: { reason: 'ContainerCreating' } })]
    expect(stateOf(pod({ status: { phase: 'Pending', conditions: [] } }))).toEqual({
      is: 'starting',
      why: 'it starts on node-1: Pending',
    })
    expect(stateOf(pod({ status: { phase: 'Pending', containerStatuses: creating, conditions: [] } }))).toEqual({
      is: 'starting',
      why: 'it starts on node-1: ContainerCreating',
    })
  })

  test('unscheduled without a node, and says why as far as that is said', () => {
    const message = '0/3 nodes are available: 3 Insufficient memory.'
    const conditions = [condition('PodScheduled', 'False', { reason: 'Unschedulable', message })]
    const nowhere = { nodeName: undefined }
    expect(stateOf(pod({ spec: nowhere, status: { phase: 'Pending', conditions } }))).toEqual({
      is: 'unscheduled',
      why: `no node was found for it: Unschedulable (${message})`,
    })
    expect(stateOf(podOf({ metadata: { name: 'p', uid: UID, resourceVersion: '1' } }))).toEqual({
      is: 'unscheduled',
      why: 'no node was found for it: Pending',
    })
  })
})

describe('one that starts its containers again', () => {
  const always = { restartPolicy: 'Always' }
  const dead = container('agent', ended(3), { restartCount: 1 })
  const agent = (incarnation: string) => ({ ref: 'r', incarnation, key: undefined })

  test('is restarting between an end and the next beginning, and its agent has ended', () => {
    const backOff = container(
      'agent',
      { waiting: { reason: 'CrashLoopBackOff' } },
      { restartCount: 1, lastState: ended(3) },
    )
    for (const containerStatuses of [[dead], [backOff]]) {
      const seen = pod({ spec: always, status: { containerStatuses, conditions: ready(NOT_READY) } })
      expect(stateOf(seen)).toMatchObject({ is: 'restarting', how: { exitCode: 3 } })
      expect(sightingOf(seen)).toMatchObject({ is: 'changing', incarnation: `${UID}.1` })
      expect(ownStatus(seen, agent(`${UID}.1`))).toMatchObject({ is: 'terminated', exitCode: 3 })
    }
  })

  test('is another incarnation when it runs again, of which the former one is said to have been restarted', () => {
    const again = container('agent', RUNNING, { restartCount: 2, lastState: ended(137, 'OOMKilled') })
    const seen = pod({ spec: always, status: { containerStatuses: [again] } })
    expect(sightingOf(seen)).toEqual({ is: 'running', incarnation: `${UID}.2` })
    expect(ownStatus(seen, agent(UID)).is).toBe('restarted')
    expect(ownStatus(seen, agent(`${UID}.2`))).toEqual({ is: 'running' })
  })

  test('does not start again what has ended well, if it is only to be started after a failure', () => {
    const onFailure = { restartPolicy: 'OnFailure' }
    const state = (exitCode: number) =>
      stateOf(pod({ spec: onFailure, status: { containerStatuses: [container('agent', ended(exitCode))] } })).is
    expect([state(0), state(1)]).toEqual(['ended', 'restarting'])
  })

  test('does not start again what is in a pod that has failed, or is being deleted', () => {
    expect(stateOf(pod({ spec: always, status: { ...EVICTED, containerStatuses: [dead] } })).is).toBe('ended')
    expect(stateOf(pod({ spec: always, status: { containerStatuses: [dead] }, metadata: deleted })).is).toBe('ended')
  })

  test('is not lost because its node has lost a container, which begins again', () => {
    const seen = pod({ spec: always, status: { containerStatuses: [container('agent', UNKNOWN)] } })
    expect(sightingOf(seen).is).toBe('changing')
    expect(() => ownStatus(seen, agent(UID))).toThrow(/Nobody can say/)
  })
})

describe('the agent’s container', () => {
  test.each([
    ['the one that Sandman calls so', ['tool-server', 'agent'], {}, 'agent'],
    [
      'the one that tools take by default',
      ['web', 'main'],
      { 'kubectl.kubernetes.io/default-container': 'main' },
      'main',
    ],
    ['the first one of what somebody else has made', ['main', 'proxy'], {}, 'main'],
    [
      'the first one when the default is not there',
      ['main'],
      { 'kubectl.kubernetes.io/default-container': 'x' },
      'main',
    ],
  ])('is %s', (_which, names, annotations, expected) => {
    const containers = names.map((name) => ({ name }))
    const containerStatuses = names.map((name) => container(name, RUNNING)).reverse()
    const seen = pod({ spec: { containers }, metadata: { annotations }, status: { containerStatuses } })
    expect(seen.agent).toMatchObject({ name: expected, running: true })
  })
})

describe('its end', () => {
  const endOf = (exitCode: number, reason: string) =>
    ownStatus(pod({ status: { containerStatuses: [container('agent', ended(exitCode, reason))] } }), {
      ref: 'r',
      incarnation: UID,
      key: undefined,
    })

  test.each([
    [0, 'Completed', false],
    [1, 'Error', false],
    [143, 'Error', false],
    [137, 'OOMKilled', true],
    // Runtimes with a kernel of their own do not say it.
    [137, 'Error', undefined],
    // Something else in its container was killed for its memory, and the agent has ended by itself.
    [0, 'OOMKilled', false],
    [1, 'OOMKilled', false],
  ])('with exit code %i and %s: killed for its memory is %s', (exitCode, reason, oomKilled) => {
    expect(endOf(exitCode, reason)).toEqual({ is: 'terminated', exitCode, signal: null, oomKilled })
  })

  test('of one that was evicted is known to nobody', () => {
    const seen = pod({ status: { ...EVICTED, containerStatuses: [container('agent', UNKNOWN)] } })
    expect(ownStatus(seen, { ref: 'r', incarnation: UID, key: undefined })).toEqual({
      is: 'terminated',
      exitCode: null,
      signal: null,
      oomKilled: undefined,
    })
    expect(sightingOf(seen).is).toBe('lost')
  })

  test('of one on a lost node, or that has not begun, is not told', () => {
    const agent = { ref: 'r', incarnation: UID, key: undefined }
    const lost = { containerStatuses: [container('agent', RUNNING)], conditions: [condition('Ready', 'Unknown')] }
    for (const status of [lost, { phase: 'Pending', conditions: [] }])
      expect(() => ownStatus(pod({ status }), agent)).toThrow(/Nobody can say how the agent of r is/)
  })

  test('has not come for one that is being deleted and still runs', () => {
    const seen = pod({ status: { containerStatuses: [container('agent', RUNNING)] }, metadata: deleted })
    expect(ownStatus(seen, { ref: 'r', incarnation: UID, key: undefined })).toEqual({ is: 'running' })
  })
})

test('every rule says what it is about, and the last one is about everything', () => {
  for (const { when } of POD_RULES) expect(when.length).toBeGreaterThan(5)
  expect(POD_RULES.at(-1)?.read(pod())).toBeDefined()
})

test('what is no pod is not taken for one', () => {
  expect(() => podOf({ metadata: { name: 'p' } })).toThrow(/is not that of an API server/)
})
