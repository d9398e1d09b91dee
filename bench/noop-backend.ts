import { abilitiesOf, type Backend, type BackendAbilities, type Sighting } from '../src/backends/backend.ts'

/** What sandboxes that were made as rows run as, until they are suspended for the first time. */
export const FIRST_INCARNATION = 'run-0'

const READY = { is: 'ready', sizeBytes: 1_000 } as const

/**
 * A provider in this process that answers at once, so that what is measured is all but a provider. Its instances are there by being
 * asked for: rows that were made in bulk need nobody to make theirs. Like most, it has instance and checkpoint as one.
 */
export function noopBackend(name = 'noop'): Backend {
  const asleep = new Set<string>()
  const runs = new Map<string, number>()
  const look = (ref: string): Sighting =>
    asleep.has(ref)
      ? { is: 'suspended', checkpointRef: ref }
      : { is: 'running', incarnation: `run-${runs.get(ref) ?? 0}` }
  const checkpoints = {
    verify: async () => READY,
    discard: async () => {},
  }
  return {
    name,
    find: async () => [],
    create: async ({ sandboxId }) => ({ ref: sandboxId }),
    adopt: async () => {},
    look: async (ref) => look(ref),
    end: async ({ ref }) => {
      asleep.delete(ref)
    },
    run: async () => ({ exitCode: 0, output: 'awake' }),
    endLingering: async () => {},
    previewUrl: async () => undefined,
    startAgent: async () => {},
    stopAgent: async () => {},
    agentStatus: async () => ({ is: 'none' }),
    async *attach() {},
    // Nothing was ever made there, so that the sweeper has nothing to compare.
    lists: {
      place: async () => undefined,
      instances: async () => ({ items: [], next: undefined }),
      checkpoints: 'none',
    },
    pausing: {
      ...checkpoints,
      preserves: 'memory',
      consumesCheckpoint: true,
      needsCheckpoint: true,
      async suspend({ ref }) {
        asleep.add(ref)
        return { checkpointRef: ref }
      },
      async resume({ ref }) {
        if (asleep.delete(ref)) runs.set(ref, (runs.get(ref) ?? 0) + 1)
      },
    },
    snapshots: { ...checkpoints, take: async ({ ref }) => ({ checkpointRef: `${ref}-copy` }) },
    lease: 'none',
    close: async () => {},
  }
}

/** What an app knows of it. */
export function noopAbilities(): BackendAbilities {
  return abilitiesOf(noopBackend())
}
