import { makePool } from '../backends/agent-sandbox/pool-setup.ts'
import { FROM_A_POOL, proveAgentSandbox } from './agent-sandbox-setup.ts'

// What depends neither on how it sleeps nor on the version of the resource is in agent-sandbox.test.ts.
const SLEEP = ['claims', 'pausing']

await proveAgentSandbox('agent-sandbox, v1alpha1', {
  serve: { sandboxes: ['v1alpha1'] },
  sleep: { pausing: 'disk' },
  only: SLEEP,
})
await proveAgentSandbox('agent-sandbox, with pod snapshots', {
  serve: { sandboxes: ['v1beta1'], podSnapshots: true },
  // The log of a pod is that pod's, and the process goes on in another one.
  sleep: { pausing: 'memory', ownOutput: 'since it was resumed' },
  only: SLEEP,
})
await proveAgentSandbox('agent-sandbox, from a warm pool', {
  serve: { sandboxes: ['v1beta1'], extensions: true },
  sleep: { pausing: 'disk' },
  pool: { name: 'warm', make: (cluster) => makePool(cluster, 'warm', 2) },
  only: FROM_A_POOL,
})
