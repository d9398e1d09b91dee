import assert from 'node:assert/strict'
import { call, fails, IDLING } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** What it says of itself is what it can do, and what it cannot do there is no way to ask for. */
export function claimCases(suite: Suite): Case[] {
  const { claims } = suite.subject
  const cases = suite.own('claims', {
    async 'It says of itself what is said of it'({ backend }) {
      const { name, pausing, snapshots, lease } = backend
      assert.match(name, /^[a-z0-9][a-z0-9-]*$/)
      assert.equal(pausing === 'none' ? 'none' : pausing.preserves, claims.pausing)
      assert.equal(snapshots !== 'none', claims.snapshots)
      assert.equal(lease !== 'none', claims.lease)
      // Whoever has checkpoints with names of their own has to list them, or they are found by nobody when a worker dies.
      const keepsNamed = (pausing !== 'none' && !pausing.consumesCheckpoint) || snapshots !== 'none'
      if (keepsNamed) assert.notEqual(backend.lists.checkpoints, 'none')
    },
  })
  if (claims.pausing === 'none' && !claims.snapshots)
    cases.push(
      ...suite.own('claims', {
        async 'It makes nothing from a checkpoint, of which it has none'(bench) {
          const wanted = bench.wanted({}, { checkpointRef: 'a-checkpoint' })
          await fails(['spec_invalid', 'checkpoint_missing'], bench.backend.create(wanted, call()))
          assert.deepEqual(await bench.instances(), [])
        },
      }),
    )
  if (claims.sidecar === 'none')
    cases.push(
      ...suite.own('claims', {
        async 'It refuses a sidecar, and makes nothing'(bench) {
          const wanted = bench.wanted({ agent: { command: IDLING, sidecar: { command: IDLING } } })
          await fails('spec_invalid', bench.backend.create(wanted, call()))
          assert.deepEqual(await bench.instances(), [])
        },
      }),
    )
  if (!claims.memoryLimit)
    cases.push(
      ...suite.own('claims', {
        async 'It refuses a limit of memory that it would not keep to, and makes nothing'(bench) {
          const wanted = bench.wanted({ limits: { memoryBytesMax: 64 << 20 } })
          await fails('spec_invalid', bench.backend.create(wanted, call()))
          assert.deepEqual(await bench.instances(), [])
        },
      }),
    )
  return cases
}
