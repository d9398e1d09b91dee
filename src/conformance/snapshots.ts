import { fails, is, isNot, matches } from './assertions.ts'
import { call, IDLING, newId, settled, snapshotsOf } from './bench.ts'
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
      is('take with the same key', await bench.snapshots.take(target, asked, call()), first)
      const elsewhere = await snapshotsOf(await bench.another()).take(target, asked, call())
      is('take with the same key, by another worker,', elsewhere, first)
      const other = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      isNot('take with another key', other.checkpointRef, first.checkpointRef)
    },

    async 'Several who ask for it at once get one snapshot'(bench, target) {
      const asked = { key: newId('op'), name: undefined }
      const workers = [bench.snapshots, bench.snapshots, (await bench.another()).snapshots]
      const outcomes = await Promise.allSettled(
        workers.map((each) => each !== 'none' && each.take(target, asked, call())),
      )
      for (const outcome of outcomes)
        if (outcome.status === 'rejected')
          await fails('take beside another take', 'sandbox_unreachable', Promise.reject(outcome.reason))
      const { checkpointRef } = await bench.snapshots.take(target, asked, call())
      is('verify after several takes', (await settled(bench.snapshots, checkpointRef)).is, 'ready')
      const refs = (await bench.checkpoints()).map(({ ref }) => ref)
      is('the list of checkpoints after several takes with one key', refs, [checkpointRef])
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
      is('verify after the end of its origin', (await settled(bench.snapshots, checkpointRef)).is, 'ready')
      const copy = await bench.create({}, { checkpointRef })
      is('a file in one that was made from a snapshot', await bench.run(copy, 'cat file'), 'then\n')
      const status = await bench.backend.agentStatus({ ...copy, key: agent.key }, call())
      is('agentStatus in one that was made from a snapshot', status, { is: 'none' })
    },

    async 'Snapshots are listed with their sandbox, until they are discarded'(bench, { sandboxId, ...target }) {
      const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      await settled(bench.snapshots, checkpointRef)
      const listed = await bench.checkpoints()
      is('the list of checkpoints after take', listed, [{ ref: checkpointRef, sandboxId, kind: 'snapshot' }])
      const others = await bench.checkpoints(await bench.another(`${bench.fleet}-b`))
      is('the list of checkpoints of another fleet', others, [])
      for (const _time of [1, 2]) await bench.snapshots.discard(checkpointRef, call())
      is('verify after discard', (await settled(bench.snapshots, checkpointRef)).is, 'missing')
      is('the list of checkpoints after discard', await bench.checkpoints(), [])
      is('what runs after discard', await bench.awake(target.ref), target)
    },

    async 'From a checkpoint that is gone nothing is made, and that is said'(bench, target) {
      const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      await bench.snapshots.discard(checkpointRef, call())
      const wanted = bench.wanted({}, { checkpointRef })
      await fails(
        'create from a snapshot after its discard',
        'checkpoint_missing',
        bench.backend.create(wanted, call()),
      )
      is('find after that', await bench.find(wanted.sandboxId), [])
    },

    async 'None is taken of what sleeps'(bench, target) {
      if (bench.backend.pausing === 'none') return
      await bench.suspend(target)
      const attempt = bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
      await fails('take of what sleeps', 'overtaken', attempt)
      is('look after that', (await bench.look(target.ref)).is, 'suspended')
    },
  })
  cases.push(
    ...suite.shared('snapshots', {
      async 'A snapshot is whole, and its sandbox runs on as the incarnation that it is'(bench, target) {
        const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: 'before-lunch' }, call())
        is('verify after take', (await settled(bench.snapshots, checkpointRef)).is, 'ready')
        is('what runs after take', await bench.awake(target.ref), target)
        const status = await bench.backend.agentStatus({ ...target, key: undefined }, call())
        is('agentStatus after take', status, { is: 'running' })
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
          is('verify after take', (await settled(bench.snapshots, checkpointRef)).is, 'ready')
          await damage(checkpointRef, bench.fleet)
          const { is: condition } = await settled(bench.snapshots, checkpointRef)
          matches('verify of what was damaged', condition, /^(missing|corrupt)$/)
          const making = bench.backend.create(bench.wanted({}, { checkpointRef }), call())
          await fails('create from what was damaged', ['checkpoint_missing', 'checkpoint_corrupt'], making)
        },
      }),
    )
  return cases
}
