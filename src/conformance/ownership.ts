import assert from 'node:assert/strict'
import { call, IDLING, newId, settled } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** Whose what is. Two deployments may share one account, and neither may touch what is the other's. */
export function ownershipCases(suite: Suite): Case[] {
  const { claims } = suite.subject
  const cases = suite.own('ownership', {
    async 'Another fleet can neither end, change nor enter it, not even by its name (incident I)'(bench) {
      const target = await bench.create()
      const stranger = await bench.another(`${bench.fleet}-b`)
      const { pausing, lease } = stranger
      const owner = { sandboxId: newId('sbx'), life: newId('op') }
      const attempts = [
        () => stranger.end(target, call()),
        () => stranger.end({ ...target, incarnation: null }, call()),
        () => stranger.adopt(target.ref, owner, call()),
        () => (pausing === 'none' ? undefined : pausing.suspend(target, { key: newId('op') }, call())),
        () => (lease === 'none' ? undefined : lease.set(target, 60_000, call())),
      ]
      const agent = await bench.start(target, IDLING)
      attempts.push(
        () => stranger.stopAgent(agent, call()),
        () => stranger.endLingering(target, call()),
      )
      for (const attempt of attempts) await Promise.resolve(attempt()).catch(() => {})
      await assert.rejects(stranger.agentStatus(agent, call()))
      const listening = async () => {
        for await (const _piece of stranger.attach(agent, undefined, call())) return
      }
      await assert.rejects(listening())
      assert.deepEqual(await bench.backend.agentStatus(agent, call()), { is: 'running' })
      await assert.rejects(stranger.run(target, 'touch entered', call()))
      await assert.rejects(stranger.startAgent(target, { key: newId('exe'), command: ['touch', 'entered'] }, call()))
      assert.equal((await bench.awake(target.ref)).incarnation, target.incarnation)
      assert.equal(await bench.run(target, 'test -e entered || echo untouched'), 'untouched\n')
      assert.deepEqual(await stranger.find(owner.sandboxId, call()), [])
    },

    async 'A fleet whose name begins like another one is another one'(bench) {
      const sandboxId = newId('sbx')
      const longer = await bench.another(`${bench.fleet}-b`)
      const { ref } = await longer.create(bench.wanted({}, { sandboxId }), call())
      assert.deepEqual(await bench.find(sandboxId), [])
      assert.deepEqual(await bench.instances(), [])
      const seen = await longer.look(ref, call())
      const incarnation = seen.is === 'running' ? seen.incarnation : null
      await bench.backend.end({ ref, incarnation }, call()).catch(() => {})
      assert.notEqual((await longer.look(ref, call())).is, 'absent')
      assert.deepEqual(
        (await bench.instances(longer)).map((listed) => listed.ref),
        [ref],
      )
    },

    async 'What is adopted goes on as it was, under its new owner'(bench) {
      const before = { sandboxId: newId('sbx'), life: newId('op') }
      const after = { sandboxId: newId('sbx'), life: newId('op') }
      const target = await bench.create({}, before)
      for (const _time of [1, 2]) await bench.backend.adopt(target.ref, after, call())
      assert.equal((await bench.awake(target.ref)).incarnation, target.incarnation)
      if (!claims.labelsAdopted) return
      assert.deepEqual(await bench.backend.find(after.sandboxId, call()), [{ ref: target.ref, life: after.life }])
      assert.deepEqual(await bench.find(before.sandboxId), [])
    },
  })
  cases.push(
    ...suite.lent('ownership', {
      async 'Another fleet neither finds nor lists what is not its own (incident I)'(bench, { ref, sandboxId }) {
        const stranger = await bench.another(`${bench.fleet}-b`)
        assert.deepEqual(await stranger.find(sandboxId, call()), [])
        assert.deepEqual(await bench.instances(stranger), [])
        assert.deepEqual(
          (await bench.instances()).map((listed) => listed.ref),
          [ref],
        )
      },
    }),
  )
  if (claims.snapshots)
    cases.push(
      ...suite.lent('ownership', {
        async 'Another fleet can neither delete nor take a copy of it (incident I)'(bench, target) {
          const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
          assert.equal((await settled(bench.snapshots, checkpointRef)).is, 'ready')
          const { snapshots } = await bench.another(`${bench.fleet}-b`)
          if (snapshots === 'none') assert.fail('it was said to be able to take snapshots')
          await snapshots.discard(checkpointRef, call()).catch(() => {})
          await assert.rejects(snapshots.take(target, { key: newId('op'), name: undefined }, call()))
          assert.equal((await settled(bench.snapshots, checkpointRef)).is, 'ready')
          assert.equal((await bench.checkpoints()).length, 1)
        },
      }),
    )
  if (claims.pausing !== 'none')
    cases.push(
      ...suite.lent('ownership', {
        async 'Another fleet does not wake it (incident I)'(bench, { ref, incarnation }) {
          const checkpointRef = await bench.suspend({ ref, incarnation })
          const { pausing } = await bench.another(`${bench.fleet}-b`)
          if (pausing === 'none') assert.fail('it was said to be able to pause')
          const asked = { key: newId('op'), ttlMs: 600_000 }
          await assert.rejects(pausing.resume({ ref, checkpointRef }, asked, call()))
          await pausing.discard(checkpointRef, call()).catch(() => {})
          assert.deepEqual(await bench.look(ref), { is: 'suspended', checkpointRef })
          await bench.resume(ref, checkpointRef)
        },
      }),
    )
  return cases
}
