import { BackendError, type Wanted } from './backend.ts'

/** What not every provider can be asked for, by the names that apps give it. */
const ASKED = {
  from: ({ checkpointRef }) => checkpointRef,
  'agent.sidecar': ({ spec }) => spec.agent?.sidecar,
  'limits.memoryBytesMax': ({ spec }) => spec.limits?.memoryBytesMax,
  'limits.cpusMax': ({ spec }) => spec.limits?.cpusMax,
  readOnlyRoot: ({ spec }) => spec.readOnlyRoot || undefined,
} as const satisfies Record<string, (wanted: Wanted) => unknown>

/** Refuses a sandbox that is asked for with any of these, and says why it cannot be. */
export function requireWithout(
  wanted: Wanted,
  names: readonly (keyof typeof ASKED)[],
  explain: (name: string) => string,
): void {
  const asked = names.find((name) => ASKED[name](wanted) !== undefined)
  if (asked) throw new BackendError('spec_invalid', explain(asked))
}
