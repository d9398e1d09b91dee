import assert from 'node:assert/strict'
import { type Awake, type Bench, call, fails, newId, sh } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** How instances come to be, are found, and end. */
export function lifeCases(suite: Suite): Case[] {
  const cases = suite.own('life', {
    async 'A sandbox that was made runs, and is found by its owner with its life'(bench) {
      const wanted = bench.wanted()
      const { ref } = await bench.backend.create(wanted, call())
      await bench.awake(ref)
      assert.deepEqual(await bench.backend.find(wanted.sandboxId, call()), [{ ref, life: wanted.life }])
    },

    async 'The same life asked for again is the same instance, also by another worker'(bench) {
      const wanted = bench.wanted()
      const first = await bench.backend.create(wanted, call())
      const { incarnation } = await bench.awake(first.ref)
      const again = await bench.backend.create(wanted, call())
      const elsewhere = await (await bench.another()).create(wanted, call())
      assert.deepEqual([again, elsewhere], [first, first])
      assert.equal((await bench.awake(first.ref)).incarnation, incarnation)
      assert.deepEqual(await bench.find(wanted.sandboxId), [first.ref])
    },

    async 'The same life asked for by several at once ends as one instance'(bench) {
      const wanted = bench.wanted()
      const workers = [bench.backend, await bench.another(), await bench.another()]
      const made = await Promise.all(workers.map((backend) => backend.create(wanted, call())))
      await bench.awake((made[0] as { ref: string }).ref)
      assert.deepEqual(await bench.find(wanted.sandboxId), [made[0]?.ref])
      assert.deepEqual(new Set(made.map(({ ref }) => ref)).size, 1)
    },

    async 'A sandbox is found by its own id, and by no other'(bench) {
      const [one, other] = [newId('sbx'), newId('sbx')]
      const refs = [
        (await bench.create({}, { sandboxId: one })).ref,
        (await bench.create({}, { sandboxId: other })).ref,
      ]
      assert.deepEqual([await bench.find(one), await bench.find(other)], [[refs[0]], [refs[1]]])
      assert.deepEqual(await bench.find(newId('sbx')), [])
    },

    async 'Several who end it at once have ended it'(bench) {
      const target = await bench.create()
      const workers = [bench.backend, bench.backend, await bench.another(), await bench.another()]
      await Promise.all(workers.map((backend) => backend.end(target, call())))
      assert.deepEqual(await bench.look(target.ref), { is: 'absent' })
    },

    async 'Two lives of one sandbox are two instances'(bench) {
      const sandboxId = newId('sbx')
      const refs = [(await bench.create({}, { sandboxId })).ref, (await bench.create({}, { sandboxId })).ref]
      assert.deepEqual((await bench.find(sandboxId)).sort(), refs.sort())
    },

    async 'An incarnation is the same for as long as it runs, whoever looks, and nobody else has it'(bench) {
      const first = await bench.create()
      await bench.run(first, 'true')
      assert.equal((await bench.awake(first.ref)).incarnation, first.incarnation)
      const seen = await (await bench.another()).look(first.ref, call())
      assert.equal(seen.is === 'running' && seen.incarnation, first.incarnation)
      assert.notEqual((await bench.create()).incarnation, first.incarnation)
    },

    async 'One that was ended is absent, not found and not listed, and can be ended again'(bench) {
      const sandboxId = newId('sbx')
      const target = await bench.create({}, { sandboxId })
      await bench.backend.end(target, call())
      assert.deepEqual(await bench.look(target.ref), { is: 'absent' })
      assert.deepEqual(await bench.find(sandboxId), [])
      assert.deepEqual(await bench.instances(), [])
      await bench.backend.end(target, call())
      await bench.backend.end({ ...target, incarnation: null }, call())
    },

    async 'Of one that was ended, every call says that it has expired'(bench) {
      const target = await bench.create()
      await bench.backend.end(target, call())
      for (const attempt of Object.values(callsFor(bench, target))) await fails('sandbox_expired', attempt())
      await fails(
        'sandbox_expired',
        bench.backend.adopt(target.ref, { sandboxId: newId('sbx'), life: newId('op') }, call()),
      )
    },

    async 'A template that there is not makes nothing'(bench) {
      const wanted = bench.wanted({ template: `sandman-conformance/${bench.fleet}` })
      await fails(['spec_invalid', 'sandbox_unreachable'], bench.backend.create(wanted, call()))
      assert.deepEqual(await bench.instances(), [])
    },

    async 'A call that was given up before it began is not begun'(bench) {
      const wanted = bench.wanted()
      const reason = new Error('given up')
      const given = { signal: AbortSignal.abort(reason) }
      await assert.rejects(bench.backend.create(wanted, given), reason)
      await assert.rejects(bench.backend.look('x', given), reason)
      assert.deepEqual(await bench.find(wanted.sandboxId), [])
    },

    async 'What a sandbox is made with reaches its agent'(bench) {
      const command = sh('printf "%s|" "$GREETING" "$1" "$2"; echo end; exec sleep 1000')
      const target = await bench.create({
        agent: { command: [...command, 'sh', 'two words', 'it\'s "quoted" $HOME'], env: { GREETING: 'good\nmorning' } },
      })
      let heard = ''
      for await (const { bytes } of bench.backend.attach({ ...target, key: undefined }, undefined, call())) {
        heard += Buffer.from(bytes)
        if (heard.endsWith('end\n')) break
      }
      assert.equal(heard, `good\nmorning|two words|it's "quoted" $HOME|end\n`)
    },
  })
  cases.push(
    ...suite.lent('life', {
      async 'A call that was meant for another incarnation is overtaken, and does nothing'(bench, target) {
        const another = { ...target, incarnation: 'another' }
        for (const attempt of Object.values(callsFor(bench, another, { status: false })))
          await fails('overtaken', attempt())
        await fails('overtaken', bench.backend.end(another, call()))
        await fails('overtaken', bench.backend.end({ ...target, incarnation: null }, call()))
        assert.equal((await bench.awake(target.ref)).incarnation, target.incarnation)
      },
    }),
  )
  return cases
}

/** Every call that works on one instance. */
function callsFor({ backend }: Bench, target: Awake, { status = true } = {}): Record<string, () => Promise<unknown>> {
  const agent = { ...target, key: newId('exe') }
  const { pausing, snapshots, lease } = backend
  return {
    run: () => backend.run(target, 'true', call()),
    endLingering: () => backend.endLingering(target, call()),
    startAgent: () => backend.startAgent(target, { key: agent.key, command: ['true'] }, call()),
    stopAgent: () => backend.stopAgent(agent, call()),
    ...(status && {
      agentStatus: () => backend.agentStatus(agent, call()),
      attach: async () => {
        for await (const piece of backend.attach(agent, undefined, call())) return piece
      },
    }),
    ...(pausing !== 'none' && { suspend: () => pausing.suspend(target, { key: newId('op') }, call()) }),
    ...(snapshots !== 'none' && { take: () => snapshots.take(target, { key: newId('op'), name: undefined }, call()) }),
    ...(lease !== 'none' && { lease: () => lease.set(target, 300_000, call()) }),
  }
}
