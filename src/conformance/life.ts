import { fails, givenUp, is, isNot } from './assertions.ts'
import { type Awake, type Bench, call, newId, sh } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** How instances come to be, are found, and end. */
export function lifeCases(suite: Suite): Case[] {
  const cases = suite.own('life', {
    async 'A sandbox that was made runs, and is found by its owner with its life'(bench) {
      const wanted = bench.wanted()
      const { ref } = await bench.backend.create(wanted, call())
      await bench.awake(ref)
      is('find by its owner', await bench.backend.find(wanted.sandboxId, call()), [{ ref, life: wanted.life }])
    },

    async 'The same life asked for again is the same instance, also by another worker'(bench) {
      const wanted = bench.wanted()
      const first = await bench.backend.create(wanted, call())
      const { incarnation } = await bench.awake(first.ref)
      const again = await bench.backend.create(wanted, call())
      const elsewhere = await (await bench.another()).create(wanted, call())
      is('create of the same life, again', again, first)
      is('create of the same life, by another worker', elsewhere, first)
      is('the incarnation after both', (await bench.awake(first.ref)).incarnation, incarnation)
      is('find after both', await bench.find(wanted.sandboxId), [first.ref])
    },

    async 'The same life asked for by several at once ends as one instance'(bench) {
      const wanted = bench.wanted()
      const workers = [bench.backend, await bench.another(), await bench.another()]
      const made = await Promise.all(workers.map((backend) => backend.create(wanted, call())))
      await bench.awake((made[0] as { ref: string }).ref)
      is('find after several creates of one life', await bench.find(wanted.sandboxId), [made[0]?.ref])
      for (const { ref } of made) is('create of the same life, at once', ref, made[0]?.ref)
    },

    async 'A sandbox is found by its own id, and by no other'(bench) {
      const [one, other] = [newId('sbx'), newId('sbx')]
      const refs = [
        (await bench.create({}, { sandboxId: one })).ref,
        (await bench.create({}, { sandboxId: other })).ref,
      ]
      is('find by the id of the first sandbox', await bench.find(one), [refs[0]])
      is('find by the id of the second sandbox', await bench.find(other), [refs[1]])
      is('find by an id that nobody has', await bench.find(newId('sbx')), [])
    },

    async 'Several who end it at once have ended it'(bench) {
      const target = await bench.create()
      const workers = [bench.backend, bench.backend, await bench.another(), await bench.another()]
      await Promise.all(workers.map((backend) => backend.end(target, call())))
      is('look after several ends at once', await bench.look(target.ref), { is: 'absent' })
    },

    async 'Two lives of one sandbox are two instances'(bench) {
      const sandboxId = newId('sbx')
      const refs = [(await bench.create({}, { sandboxId })).ref, (await bench.create({}, { sandboxId })).ref]
      is('find of a sandbox with two lives', (await bench.find(sandboxId)).sort(), refs.sort())
    },

    async 'An incarnation is the same for as long as it runs, whoever looks, and nobody else has it'(bench) {
      const first = await bench.create()
      await bench.run(first, 'true')
      is('the incarnation after run', (await bench.awake(first.ref)).incarnation, first.incarnation)
      const seen = await (await bench.another()).look(first.ref, call())
      is('the incarnation that another worker sees', seen.is === 'running' && seen.incarnation, first.incarnation)
      isNot('the incarnation of another sandbox', (await bench.create()).incarnation, first.incarnation)
    },

    async 'One that was ended is absent, not found and not listed, and can be ended again'(bench) {
      const sandboxId = newId('sbx')
      const target = await bench.create({}, { sandboxId })
      await bench.backend.end(target, call())
      is('look after end', await bench.look(target.ref), { is: 'absent' })
      is('find after end', await bench.find(sandboxId), [])
      is('the list of instances after end', await bench.instances(), [])
      await bench.backend.end(target, call())
      await bench.backend.end({ ...target, incarnation: null }, call())
    },

    async 'Of one that was ended, every call says that it has expired'(bench) {
      const target = await bench.create()
      await bench.backend.end(target, call())
      for (const [method, attempt] of Object.entries(callsFor(bench, target)))
        await fails(`${method} after end`, 'sandbox_expired', attempt())
      const owner = { sandboxId: newId('sbx'), life: newId('op') }
      await fails('adopt after end', 'sandbox_expired', bench.backend.adopt(target.ref, owner, call()))
    },

    async 'A template that there is not makes nothing'(bench) {
      const wanted = bench.wanted({ template: `sandman-conformance/${bench.fleet}` })
      const types = ['spec_invalid', 'sandbox_unreachable'] as const
      await fails('create from a template that there is not', types, bench.backend.create(wanted, call()))
      is('the list of instances after that', await bench.instances(), [])
    },

    async 'A call that was given up before it began is not begun'(bench) {
      const wanted = bench.wanted()
      const reason = new Error('given up')
      const given = { signal: AbortSignal.abort(reason) }
      await givenUp('create', bench.backend.create(wanted, given), reason)
      await givenUp('look', bench.backend.look('x', given), reason)
      is('find after a create that was given up before it began', await bench.find(wanted.sandboxId), [])
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
      is(
        'the output of an agent that prints its words and variables',
        heard,
        `good\nmorning|two words|it's "quoted" $HOME|end\n`,
      )
    },
  })
  cases.push(
    ...suite.lent('life', {
      async 'A call that was meant for another incarnation is overtaken, and does nothing'(bench, target) {
        const another = { ...target, incarnation: 'another' }
        for (const [method, attempt] of Object.entries(callsFor(bench, another, { status: false })))
          await fails(`${method} of another incarnation`, 'overtaken', attempt())
        await fails('end of another incarnation', 'overtaken', bench.backend.end(another, call()))
        const asleep = { ...target, incarnation: null }
        await fails('end of what sleeps, of one that runs,', 'overtaken', bench.backend.end(asleep, call()))
        is('the incarnation after all of them', (await bench.awake(target.ref)).incarnation, target.incarnation)
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
