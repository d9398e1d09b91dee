import { KubeConfig } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { Api } from '../../../src/backends/kubernetes/api.ts'
import { PodWatch } from '../../../src/backends/kubernetes/pod-watch.ts'

/** As clouds have it: a program is asked for a token. This one takes its time. */
function apiWithSlowPlugin(): Api {
  const config = new KubeConfig()
  const exec = {
    apiVersion: 'client.authentication.k8s.io/v1',
    command: 'sleep',
    args: ['5'],
    interactiveMode: 'Never',
  }
  config.loadFromClusterAndUser(
    { name: 'cluster', server: 'http://127.0.0.1:1', skipTLSVerify: true },
    { name: 'user', exec },
  )
  return new Api(config)
}

test('a program that does not give the credentials keeps nobody waiting who has given up', async () => {
  const reason = new Error('given up')
  const abort = new AbortController()
  const asking = apiWithSlowPlugin().json({ path: '/version' }, abort)
  setImmediate(() => abort.abort(reason))
  await expect(asking).rejects.toBe(reason)
}, 3_000)

test('nor a worker that stops', async () => {
  const watch = new PodWatch(apiWithSlowPlugin(), 'agents', '')
  watch.get('anything')
  await watch.close()
}, 3_000)
