import { isLive, proveAgentSandbox, proveAtCluster } from './agent-sandbox-setup.ts'

if (isLive) await proveAtCluster()
else
  await proveAgentSandbox('agent-sandbox, what is on its volume', {
    serve: { sandboxes: ['v1beta1'] },
    sleep: { pausing: 'disk' },
  })
