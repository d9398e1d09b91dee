import { proveAgentSandbox } from './agent-sandbox-setup.ts'

// What depends neither on how it sleeps nor on the version of the resource is in agent-sandbox.test.ts.
const SLEEP = ['claims', 'pausing']

await proveAgentSandbox('agent-sandbox, v1alpha1', { sandboxes: ['v1alpha1'] }, { pausing: 'disk' }, SLEEP)
await proveAgentSandbox(
  'agent-sandbox, with pod snapshots',
  { sandboxes: ['v1beta1'], podSnapshots: true },
  // The log of a pod is that pod's, and the process goes on in another one.
  { pausing: 'memory', ownOutput: 'since it was resumed' },
  SLEEP,
)
