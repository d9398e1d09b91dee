import assert from 'node:assert/strict'
import { call, fails, IDLING, newId, settled } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** Copies of a sandbox that runs on. */
export function snapshotCases(suite: Suite): Case[] {
  if (!suite.subject.claims.snapshots) return []
  const { damage } = suite.subject
  const cases = suite.lent('snapshots', {
    async 'The same key is the same snapshot, and another key another one'(bench, target) {
      const asked = { key: newId('op'), name: undefined }
      const first = await bench.snapshots.take(target, asked, call())
      assert.deepEqual(await bench.snapshots.take(target, asked, call()), first)
      const { snapshots } = await bench.another()
      assert.deepEqual(snapshots !== 'none' && (await snapshots.take(target, asked, call())), first)
      const other = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      assert.notEqual(other.checkpointRef, first.checkpointRef)
    },

    async 'Several who ask for it at once get one snapshot'(bench, target) {
      const asked = { key: newId('op'), name: undefined }
      const workers = [bench.snapshots, bench.snapshots, (await bench.another()).snapshots]
      const outcomes = await Promise.allSettled(
        workers.map((each) => each !== 'none' && each.take(target, asked, call())),
      )
      for (const outcome of outcomes)
        if (outcome.status === 'rejected') await fails('sandbox_unreachable', Promise.reject(outcome.reason))
      const { checkpointRef } = await bench.snapshots.take(target, asked, call())
      assert.equal((await settled(bench.snapshots, checkpointRef)).is, 'ready')
      assert.deepEqual(
        (await bench.checkpoints()).map(({ ref }) => ref),
        [checkpointRef],
      )
    },

    async 'A sandbox begins as a snapshot, as it was then, without agents, also when its origin has ended'(
      bench,
      target,
    ) {
      await bench.run(target, 'echo then > file')
      const agent = await bench.start(target, IDLING)
      const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      await settled(bench.snapshots, checkpointRef)
      await bench.run(target, 'echo now > file')
      await bench.backend.end(target, call())
      assert.equal((await settled(bench.snapshots, checkpointRef)).is, 'ready')
      const copy = await bench.create({}, { checkpointRef })
      assert.equal(await bench.run(copy, 'cat file'), 'then\n')
      assert.deepEqual(await bench.backend.agentStatus({ ...copy, key: agent.key }, call()), { is: 'none' })
    },

    async 'Snapshots are listed with their sandbox, until they are discarded'(bench, { sandboxId, ...target }) {
      const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      await settled(bench.snapshots, checkpointRef)
      assert.deepEqual(await bench.checkpoints(), [{ ref: checkpointRef, sandboxId, kind: 'snapshot' }])
      assert.deepEqual(await bench.checkpoints(await bench.another(`${bench.fleet}-b`)), [])
      for (const _time of [1, 2]) await bench.snapshots.discard(checkpointRef, call())
      assert.equal((await settled(bench.snapshots, checkpointRef)).is, 'missing')
      assert.deepEqual(await bench.checkpoints(), [])
      assert.deepEqual(await bench.awake(target.ref), target)
    },

    async 'From a checkpoint that is gone nothing is made, and that is said'(bench, target) {
      const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      await bench.snapshots.discard(checkpointRef, call())
      const wanted = bench.wanted({}, { checkpointRef })
      await fails('checkpoint_missing', bench.backend.create(wanted, call()))
      assert.deepEqual(await bench.find(wanted.sandboxId), [])
    },

    async 'None is taken of what sleeps'(bench, target) {
      if (bench.backend.pausing === 'none') return
      await bench.suspend(target)
      const attempt = bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      await fails('overtaken', attempt)
      assert.equal((await bench.look(target.ref)).is, 'suspended')
    },
  })
  cases.push(
    ...suite.shared('snapshots', {
      async 'A snapshot is whole, and its sandbox runs on as the incarnation that it is'(bench, target) {
        const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: 'before-lunch' }, call())
        assert.equal((await settled(bench.snapshots, checkpointRef)).is, 'ready')
        assert.deepEqual(await bench.awake(target.ref), target)
        assert.deepEqual(await bench.backend.agentStatus({ ...target, key: undefined }, call()), { is: 'running' })
        await bench.snapshots.discard(checkpointRef, call())
      },
    }),
  )
  if (damage)
    cases.push(
      ...suite.lent('snapshots', {
        async 'One that was damaged behind its back is not called ready, and nothing is made from it'(bench, target) {
          await bench.run(target, 'echo kept > file')
          const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
          assert.equal((await settled(bench.snapshots, checkpointRef)).is, 'ready')
          await damage(checkpointRef, bench.fleet)
          assert.match((await settled(bench.snapshots, checkpointRef)).is, /^(missing|corrupt)$/)
          const making = bench.backend.create(bench.wanted({}, { checkpointRef }), call())
          await fails(['checkpoint_missing', 'checkpoint_corrupt'], making)
        },
      }),
    )
  return cases
}
