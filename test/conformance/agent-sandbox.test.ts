import { proveAgentSandbox } from './agent-sandbox-setup.ts'

await proveAgentSandbox('agent-sandbox, what is on its volume', { sandboxes: ['v1beta1'] }, { pausing: 'disk' })
