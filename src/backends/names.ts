/** Every backend that Sandman brings. A folder or file beside this one says how it works. */
export const BACKEND_NAMES = ['local', 'docker', 'e2b', 'kubernetes-pod', 'agent-sandbox', 'agentuity'] as const

export type BackendName = (typeof BACKEND_NAMES)[number]
