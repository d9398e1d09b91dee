import assert from 'node:assert/strict'
import type { AgentStatus } from '../backends/backend.ts'
import { call, fails, gated, IDLING, newId, sh, until } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** Agents: the one that a sandbox is made with, and those that are started in it. */
export function agentCases(suite: Suite): Case[] {
  const { claims } = suite.subject
  const { sidecar } = claims
  const cases = [
    ...suite.shared('agents', {
      async 'An agent that is started in it has an output and an end of its own, apart from the others'(bench, target) {
        const agents = [
          await bench.start(target, sh('echo one; echo two >&2; exit 4')),
          await bench.start(target, sh('echo other; exit 0')),
        ] as const
        assert.equal(await bench.hear(agents[0]), 'one\ntwo\n')
        assert.equal(await bench.hear(agents[1]), 'other\n')
        assert.deepEqual(endOf(await bench.end(agents[0])), [4, null])
        assert.deepEqual(endOf(await bench.end(agents[1])), [0, null])
        assert.deepEqual(await bench.backend.agentStatus({ ...target, key: undefined }, call()), { is: 'running' })
      },

      async 'The same key starts it once, however many ask at once, and also after its end'(bench, target) {
        const asked = { key: newId('exe'), command: sh('echo once >> starts; exit 5') }
        const workers = [bench.backend, bench.backend, await bench.another(), await bench.another()]
        await Promise.all(workers.map((backend) => backend.startAgent(target, asked, call())))
        const agent = { ...target, key: asked.key }
        assert.deepEqual(endOf(await bench.end(agent)), [5, null])
        await bench.backend.startAgent(target, asked, call())
        assert.equal(await bench.run(target, 'cat starts'), 'once\n')
        assert.deepEqual(endOf(await bench.end(agent)), [5, null])
      },

      async 'Its arguments are what they were'(bench, target) {
        const words = ['', ' ', "it's", '"$HOME"', '`id`', 'a\nb', '\\n', 'ü', '-n', '*']
        const agent = await bench.start(target, [...sh('for word; do printf "<%s>" "$word"; done'), 'sh', ...words])
        assert.equal(await bench.hear(agent), words.map((word) => `<${word}>`).join(''))
      },

      async 'One that cannot be started has ended as in a shell, and its output says of what'(bench, target) {
        const agent = await bench.start(target, ['/no/such/program'])
        assert.deepEqual(endOf(await bench.end(agent)), [127, null])
        assert.match(await bench.hear(agent), /\/no\/such\/program/)
      },

      async 'One that was never started is none, and needs no stopping'(bench, target) {
        const agent = { ...target, key: newId('exe') }
        assert.deepEqual(await bench.backend.agentStatus(agent, call()), { is: 'none' })
        await bench.backend.stopAgent(agent, call())
      },

      async 'What cannot be a key or a command is refused'(bench, target) {
        for (const key of ['', '..', '../x', 'a/b'])
          await fails('spec_invalid', bench.backend.startAgent(target, { key, command: ['true'] }, call()))
        for (const command of [[], ['a\0b']])
          await fails('spec_invalid', bench.backend.startAgent(target, { key: newId('exe'), command }, call()))
      },

      async 'One that is stopped may end in its own way, and has ended when that is answered'(bench, target) {
        const agent = await bench.start(
          target,
          sh('trap "echo bye; exit 7" TERM; echo ready; while :; do sleep 0.05; done'),
        )
        await until('it is ready', async () => {
          for await (const { bytes } of bench.backend.attach(agent, undefined, call()))
            if (bytes.length > 0) return true
        })
        await bench.backend.stopAgent(agent, call())
        const status = await bench.backend.agentStatus(agent, call())
        assert.deepEqual(status.is === 'terminated' && endOf(status), [7, null])
        assert.match(await bench.hear(agent), /^ready\n(.*\n)*bye\n$/) // a shell may tell of what it was waiting for
        await bench.backend.stopAgent(agent, call())
      },

      async 'One that does not want to end is killed, with all that it has started, and with no other'(bench, target) {
        const ticking = 'while :; do echo . >> stubborn; sleep 0.05; done'
        const agent = await bench.start(
          target,
          sh(
            `trap "" TERM; (trap "" TERM; setsid sh -c '${ticking}') & (trap "" TERM; ${ticking}) & while :; do sleep 0.05; done`,
          ),
        )
        const other = await bench.start(target, IDLING)
        const count = async () => Number(await bench.run(target, 'cat stubborn 2>/dev/null | wc -c'))
        await until('it ticks', async () => (await count()) > 0 || undefined)
        await bench.backend.stopAgent(agent, call())
        assert.ok(isKilled(await bench.end(agent)), JSON.stringify(await bench.end(agent)))
        const counted = await count()
        await bench.run(target, 'sleep 0.2')
        assert.equal(await count(), counted)
        for (const key of [other.key, undefined])
          assert.deepEqual(await bench.backend.agentStatus({ ...target, key }, call()), { is: 'running' })
      },

      async 'One that was merely killed was not killed for its memory'(bench, target) {
        const status = await bench.end(await bench.start(target, sh('kill -9 $$')))
        assert.ok(isKilled(status), JSON.stringify(status))
        assert.notEqual(status.oomKilled, true)
      },

      async 'How it ended is known to whoever asks, also when who started it is gone'(bench, target) {
        const other = await bench.another()
        const asked = { key: newId('exe'), command: sh('until [ -e go ]; do sleep 0.02; done; echo gone; exit 6') }
        await other.startAgent(target, asked, call())
        await other.close()
        await bench.run(target, 'touch go')
        const agent = { ...target, key: asked.key }
        assert.deepEqual(endOf(await bench.end(agent)), [6, null])
        assert.equal(await bench.hear(agent), 'gone\n')
      },

      async 'Of another incarnation it is said to have been restarted, and nothing is heard'(bench, target) {
        const agent = { ...(await bench.start(target, sh('echo heard; exec sleep 1000'))), incarnation: 'another' }
        assert.equal((await bench.backend.agentStatus(agent, call())).is, 'restarted')
        for await (const { bytes } of bench.backend.attach(agent, undefined, call())) assert.equal(bytes.length, 0)
      },
    }),
    ...suite.own('agents', {
      async 'The agent of a sandbox has an output and an end of its own'(bench) {
        const target = await bench.create({ agent: { command: gated('echo here; exit 3') } })
        await bench.go(target)
        const agent = { ...target, key: undefined }
        assert.equal(await bench.hear(agent), 'here\n')
        const { exitCode, signal, oomKilled } = await bench.end(agent)
        assert.deepEqual([exitCode, signal], [3, null])
        assert.notEqual(oomKilled, true)
      },

      async 'A sandbox whose agent has ended can be used or woken, or says that it is lost; and it can be ended'(
        bench,
      ) {
        const target = await bench.create({ agent: { command: gated('rm -f go; exit 0') } })
        await bench.go(target)
        await bench.end({ ...target, key: undefined })
        const seen = await bench.look(target.ref)
        if (seen.is === 'running') assert.equal(await bench.run(target, 'echo usable'), 'usable\n')
        else if (seen.is === 'suspended') await bench.resume(target.ref, seen.checkpointRef)
        else assert.equal(seen.is, 'lost')
        await bench.remove(target.ref)
      },

      async 'A sandbox without an agent says so'(bench) {
        const target = await bench.create()
        assert.deepEqual(await bench.backend.agentStatus({ ...target, key: undefined }, call()), { is: 'none' })
      },
    }),
  ]
  if (sidecar !== 'none')
    cases.push(
      ...suite.own('agents', {
        async 'An agent that is dead is dead, although its sidecar lives (incident C)'(bench) {
          const command = gated('echo last words; kill -9 $$')
          const target = await bench.create({ agent: { command, sidecar: { command: IDLING } } })
          await bench.go(target)
          const agent = { ...target, key: undefined }
          assert.ok(isKilled(await bench.end(agent)))
          assert.equal(await bench.hear(agent), 'last words\n')
          if (!sidecar.endsWithAgent) assert.equal(await sidecar.isAlive(target.ref), true)
          await bench.remove(target.ref)
          await until(
            'the sidecar ends with its sandbox',
            async () => !(await sidecar.isAlive(target.ref)) || undefined,
          )
        },

        async 'A sidecar that is dead says nothing of the agent'(bench) {
          const target = await bench.create({ agent: { command: IDLING, sidecar: { command: sh('exit 1') } } })
          await until('the sidecar has ended', async () => !(await sidecar.isAlive(target.ref)) || undefined)
          assert.deepEqual(await bench.backend.agentStatus({ ...target, key: undefined }, call()), { is: 'running' })
          assert.equal((await bench.awake(target.ref)).incarnation, target.incarnation)
        },
      }),
    )
  if (claims.memoryLimit === true)
    cases.push(
      ...suite.own('agents', {
        async 'An agent that was killed for its memory says so, once, whatever lives beside it (incident C)'(bench) {
          const hungry = gated('echo hungry; a=xxxxxxxx; while :; do a=$a$a; done')
          const target = await bench.create({
            agent: { command: hungry, ...(sidecar !== 'none' && { sidecar: { command: IDLING } }) },
            limits: { memoryBytesMax: 32 << 20 },
          })
          await bench.go(target)
          const agent = { ...target, key: undefined }
          const status = await bench.end(agent)
          assert.ok(isKilled(status) && status.oomKilled === true, JSON.stringify(status))
          assert.equal(await bench.hear(agent), 'hungry\n')
          if (sidecar !== 'none' && !sidecar.endsWithAgent) assert.equal(await sidecar.isAlive(target.ref), true)
        },
      }),
    )
  return cases
}

type Terminated = AgentStatus & { is: 'terminated' }

function endOf({ exitCode, signal }: Terminated) {
  return [exitCode, signal]
}

/** Who only knows what a shell knows says 128 + 9. */
function isKilled({ exitCode, signal }: Terminated): boolean {
  return signal === 'SIGKILL' ? exitCode === null : exitCode === 137
}
