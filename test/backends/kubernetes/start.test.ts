import { expect, test } from 'vitest'
import type { Cluster } from '../../../src/backends/kubernetes/cluster.ts'
import { type Pod, podOf } from '../../../src/backends/kubernetes/pod.ts'
import { whenBegun } from '../../../src/backends/kubernetes/start.ts'

const CALL = { signal: new AbortController().signal }
const CLUSTER = { watch: { change: async () => {} } } as unknown as Cluster

function podWith(state: object): Pod {
  const metadata = { name: 'pod', uid: 'uid', resourceVersion: '1' }
  const containerStatuses = [{ name: 'agent', state, restartCount: 0, ready: false }]
  const spec = { containers: [{ name: 'agent' }], nodeName: 'node', restartPolicy: 'Never' }
  return podOf({ metadata, spec, status: { phase: 'Pending', containerStatuses } } as never)
}

const waiting = (reason: string, message: string) => podWith({ waiting: { reason, message } })

/** Shows these one after the other, and says whether it was removed. */
async function begin(...shown: Pod[]): Promise<{ wasRemoved: boolean; failure: unknown }> {
  let wasRemoved = false
  const failure = await whenBegun(CLUSTER, 'place/agents/pod', CALL, {
    find: async () => shown.shift(),
    remove: async () => {
      wasRemoved = true
    },
  }).catch((error: unknown) => error)
  return { wasRemoved, failure }
}

const RUNNING = podWith({ running: { startedAt: '2026-11-17T00:00:00Z' } })

test.each([
  ['CreateContainerConfigError', 'failed to sync secret cache: timed out waiting for the condition'],
  ['ErrImagePull', 'failed to do request: Head "https://registry/v2/x": net/http: TLS handshake timeout'],
])('what will pass is waited for: %s, %s', async (reason, message) => {
  expect(await begin(waiting(reason, message), RUNNING)).toEqual({ wasRemoved: false, failure: undefined })
})

test.each([
  ['CreateContainerConfigError', 'container has runAsNonRoot and image will run as root'],
  ['InvalidImageName', "Failed to apply default image tag: couldn't parse image name"],
  ['ImagePullBackOff', 'Back-off pulling image "x": ErrImagePull: failed to resolve reference "x": x: not found'],
])('what will not is removed, and said: %s, %s', async (reason, message) => {
  const { wasRemoved, failure } = await begin(waiting(reason, message), RUNNING)
  expect(wasRemoved).toBe(true)
  expect(failure).toMatchObject({ type: 'spec_invalid', message: expect.stringContaining(message) })
})
