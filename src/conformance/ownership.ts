import { is, isNot, refused } from './assertions.ts'
import { call, IDLING, newId, pausingOf, settled, snapshotsOf } from './bench.ts'
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
      await refused('agentStatus by another fleet', stranger.agentStatus(agent, call()))
      const listening = async () => {
        for await (const _piece of stranger.attach(agent, undefined, call())) return
      }
      await refused('attach by another fleet', listening())
      const status = await bench.backend.agentStatus(agent, call())
      is('agentStatus after another fleet has tried to end and to stop everything', status, { is: 'running' })
      await refused('run by another fleet', stranger.run(target, 'touch entered', call()))
      const entering = { key: newId('exe'), command: ['touch', 'entered'] }
      await refused('startAgent by another fleet', stranger.startAgent(target, entering, call()))
      const { incarnation } = await bench.awake(target.ref)
      is('the incarnation after another fleet has tried everything', incarnation, target.incarnation)
      const left = await bench.run(target, 'test -e entered || echo untouched')
      is('what another fleet has left behind', left, 'untouched\n')
      is('find by another fleet that has tried to adopt it', await stranger.find(owner.sandboxId, call()), [])
    },

    async 'A fleet whose name begins like another one is another one'(bench) {
      const sandboxId = newId('sbx')
      const longer = await bench.another(`${bench.fleet}-b`)
      const { ref } = await longer.create(bench.wanted({}, { sandboxId }), call())
      is('find by a fleet with a shorter name', await bench.find(sandboxId), [])
      is('the list of instances of a fleet with a shorter name', await bench.instances(), [])
      const seen = await longer.look(ref, call())
      const incarnation = seen.is === 'running' ? seen.incarnation : null
      await bench.backend.end({ ref, incarnation }, call()).catch(() => {})
      isNot('look after an end by a fleet with a shorter name', (await longer.look(ref, call())).is, 'absent')
      const refs = (await bench.instances(longer)).map((listed) => listed.ref)
      is('the list of instances of its own fleet', refs, [ref])
    },

    async 'What is adopted goes on as it was, under its new owner'(bench) {
      const before = { sandboxId: newId('sbx'), life: newId('op') }
      const after = { sandboxId: newId('sbx'), life: newId('op') }
      const target = await bench.create({}, before)
      for (const _time of [1, 2]) await bench.backend.adopt(target.ref, after, call())
      is('the incarnation after adopt', (await bench.awake(target.ref)).incarnation, target.incarnation)
      if (!claims.labelsAdopted) return
      const found = await bench.backend.find(after.sandboxId, call())
      is('find by its new owner after adopt', found, [{ ref: target.ref, life: after.life }])
      is('find by its old owner after adopt', await bench.find(before.sandboxId), [])
    },
  })
  cases.push(
    ...suite.lent('ownership', {
      async 'Another fleet neither finds nor lists what is not its own (incident I)'(bench, { ref, sandboxId }) {
        const stranger = await bench.another(`${bench.fleet}-b`)
        is('find by another fleet', await stranger.find(sandboxId, call()), [])
        is('the list of instances of another fleet', await bench.instances(stranger), [])
        const refs = (await bench.instances()).map((listed) => listed.ref)
        is('the list of instances of its own fleet', refs, [ref])
      },
    }),
  )
  if (claims.snapshots)
    cases.push(
      ...suite.lent('ownership', {
        async 'Another fleet can neither delete nor take a copy of it (incident I)'(bench, target) {
          const { checkpointRef } = await bench.snapshots.take(target, { key: newId('op'), name: undefined }, call())
          is('verify of a snapshot', (await settled(bench.snapshots, checkpointRef)).is, 'ready')
          const snapshots = snapshotsOf(await bench.another(`${bench.fleet}-b`))
          await snapshots.discard(checkpointRef, call()).catch(() => {})
          const taking = snapshots.take(target, { key: newId('op'), name: undefined }, call())
          await refused('take by another fleet', taking)
          const { is: condition } = await settled(bench.snapshots, checkpointRef)
          is('verify of a snapshot after a discard by another fleet', condition, 'ready')
          const refs = (await bench.checkpoints()).map(({ ref }) => ref)
          is('the list of checkpoints after a discard and a take by another fleet', refs, [checkpointRef])
        },
      }),
    )
  if (claims.pausing !== 'none')
    cases.push(
      ...suite.lent('ownership', {
        async 'Another fleet does not wake it (incident I)'(bench, { ref, incarnation }) {
          const checkpointRef = await bench.suspend({ ref, incarnation })
          const pausing = pausingOf(await bench.another(`${bench.fleet}-b`))
          const asked = { key: newId('op'), ttlMs: 600_000 }
          await refused('resume by another fleet', pausing.resume({ ref, checkpointRef }, asked, call()))
          await pausing.discard(checkpointRef, call()).catch(() => {})
          const seen = await bench.look(ref)
          is('look after a resume and a discard by another fleet', seen, { is: 'suspended', checkpointRef })
          await bench.resume(ref, checkpointRef)
        },
      }),
    )
  return cases
}
