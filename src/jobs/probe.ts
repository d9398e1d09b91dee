import type { Backend } from '../backends/backend.ts'
import type { Provider } from './provider.ts'

/**
 * After several single calls in a row that brought no answer: whether it is the provider that fails, or only what was asked about.
 * Of some that cannot be reached, the others must not suffer.
 */
export async function isAway(backend: Backend, everything: Provider, signal: AbortSignal): Promise<boolean> {
  try {
    await everything.ask('list', (call) => backend.lists.instances(undefined, call))
    return false
  } catch {
    signal.throwIfAborted()
    return true
  }
}
