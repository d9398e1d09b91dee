import { fails, is, isNot, matches } from './assertions.ts'
import { call, IDLING } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** What it says of itself is what it can do, and what it cannot do there is no way to ask for. */
export function claimCases(suite: Suite): Case[] {
  const { claims } = suite.subject
  const cases = suite.own('claims', {
    async 'It says of itself what is said of it'({ backend }) {
      const { name, pausing, snapshots, lease } = backend
      matches('the name of the backend', name, /^[a-z0-9][a-z0-9-]*$/)
      is('what its pausing preserves', pausing === 'none' ? 'none' : pausing.preserves, claims.pausing)
      is('whether it takes snapshots', snapshots !== 'none', claims.snapshots)
      is('whether it has a lease', lease !== 'none', claims.lease)
      // Whoever has checkpoints with names of their own has to list them, or they are found by nobody when a worker dies.
      const keepsNamed = (pausing !== 'none' && !pausing.consumesCheckpoint) || snapshots !== 'none'
      if (keepsNamed) isNot('the list of checkpoints that have names of their own', backend.lists.checkpoints, 'none')
    },
  })
  if (claims.pausing === 'none' && !claims.snapshots)
    cases.push(
      ...suite.own('claims', {
        async 'It makes nothing from a checkpoint, of which it has none'(bench) {
          const wanted = bench.wanted({}, { checkpointRef: 'a-checkpoint' })
          const types = ['spec_invalid', 'checkpoint_missing'] as const
          await fails('create from a checkpoint', types, bench.backend.create(wanted, call()))
          is('the list of instances after that', await bench.instances(), [])
        },
      }),
    )
  if (claims.sidecar === 'none')
    cases.push(
      ...suite.own('claims', {
        async 'It refuses a sidecar, and makes nothing'(bench) {
          const wanted = bench.wanted({ agent: { command: IDLING, sidecar: { command: IDLING } } })
          await fails('create with a sidecar', 'spec_invalid', bench.backend.create(wanted, call()))
          is('the list of instances after that', await bench.instances(), [])
        },
      }),
    )
  if (!claims.memoryLimit)
    cases.push(
      ...suite.own('claims', {
        async 'It refuses a limit of memory that it would not keep to, and makes nothing'(bench) {
          const wanted = bench.wanted({ limits: { memoryBytesMax: 64 << 20 } })
          await fails('create with a limit of memory', 'spec_invalid', bench.backend.create(wanted, call()))
          is('the list of instances after that', await bench.instances(), [])
        },
      }),
    )
  return cases
}
