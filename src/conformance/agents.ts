import { type AgentStatus, EXIT_CODE_KILLED } from '../backends/backend.ts'
import { fails, holds, is, isNot, matches, shown } from './assertions.ts'
import { call, gated, IDLING, newId, sh, until } from './bench.ts'
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
        is('the output of the first agent', await bench.hear(agents[0]), 'one\ntwo\n')
        is('the output of the second agent', await bench.hear(agents[1]), 'other\n')
        is('exit code and signal of the first agent', endOf(await bench.end(agents[0])), [4, null])
        is('exit code and signal of the second agent', endOf(await bench.end(agents[1])), [0, null])
        const own = await bench.backend.agentStatus({ ...target, key: undefined }, call())
        is("agentStatus of the sandbox's own agent after the ends of others", own, { is: 'running' })
      },

      async 'The same key starts it once, however many ask at once, and also after its end'(bench, target) {
        const asked = { key: newId('exe'), command: sh('echo once >> starts; exit 5') }
        const workers = [bench.backend, bench.backend, await bench.another(), await bench.another()]
        await Promise.all(workers.map((backend) => backend.startAgent(target, asked, call())))
        const agent = { ...target, key: asked.key }
        is('exit code and signal of the agent', endOf(await bench.end(agent)), [5, null])
        await bench.backend.startAgent(target, asked, call())
        is('how often startAgent with one key has started it', await bench.run(target, 'cat starts'), 'once\n')
        is('exit code and signal after startAgent with its key', endOf(await bench.end(agent)), [5, null])
      },

      async 'Its arguments are what they were'(bench, target) {
        const words = ['', ' ', "it's", '"$HOME"', '`id`', 'a\nb', '\\n', 'ü', '-n', '*']
        const agent = await bench.start(target, [...sh('for word; do printf "<%s>" "$word"; done'), 'sh', ...words])
        const printed = words.map((word) => `<${word}>`).join('')
        is('the output of an agent that prints its words', await bench.hear(agent), printed)
      },

      async 'One that cannot be started has ended as in a shell, and its output says of what'(bench, target) {
        const agent = await bench.start(target, ['/no/such/program'])
        is('exit code and signal of a program that there is not', endOf(await bench.end(agent)), [127, null])
        matches('the output of a program that there is not', await bench.hear(agent), /\/no\/such\/program/)
      },

      async 'One that was never started is none, and needs no stopping'(bench, target) {
        const agent = { ...target, key: newId('exe') }
        const status = await bench.backend.agentStatus(agent, call())
        is('agentStatus of an agent that was never started', status, { is: 'none' })
        await bench.backend.stopAgent(agent, call())
      },

      async 'What cannot be a key or a command is refused'(bench, target) {
        for (const key of ['', '..', '../x', 'a/b'])
          await fails(
            `startAgent with the key ${shown(key)}`,
            'spec_invalid',
            bench.backend.startAgent(target, { key, command: ['true'] }, call()),
          )
        for (const command of [[], ['a\0b']])
          await fails(
            `startAgent with the command ${shown(command)}`,
            'spec_invalid',
            bench.backend.startAgent(target, { key: newId('exe'), command }, call()),
          )
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
        is('agentStatus when stopAgent is answered', status.is, 'terminated')
        is('exit code and signal of one that ends in its own way', status.is === 'terminated' && endOf(status), [
          7,
          null,
        ])
        // A shell may tell of what it was waiting for.
        matches('the output of one that ends in its own way', await bench.hear(agent), /^ready\n(.*\n)*bye\n$/)
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
        assertKilled(await bench.end(agent), 'after stopAgent')
        const counted = await count()
        await bench.run(target, 'sleep 0.2')
        is('what it had written when stopAgent was answered, and a moment later,', await count(), counted)
        for (const key of [other.key, undefined]) {
          const status = await bench.backend.agentStatus({ ...target, key }, call())
          is('agentStatus of another agent after stopAgent', status, { is: 'running' })
        }
      },

      async 'One that was merely killed was not killed for its memory'(bench, target) {
        const status = await bench.end(await bench.start(target, sh('kill -9 $$')))
        assertKilled(status, 'after kill -9')
        isNot('oomKilled of one that was merely killed', status.oomKilled, true)
      },

      async 'How it ended is known to whoever asks, also when who started it is gone'(bench, target) {
        const other = await bench.another()
        const asked = { key: newId('exe'), command: sh('until [ -e go ]; do sleep 0.02; done; echo gone; exit 6') }
        await other.startAgent(target, asked, call())
        await other.close()
        await bench.run(target, 'touch go')
        const agent = { ...target, key: asked.key }
        is('exit code and signal, asked by another worker,', endOf(await bench.end(agent)), [6, null])
        is('the output, heard by another worker,', await bench.hear(agent), 'gone\n')
      },

      async 'Of another incarnation it is said to have been restarted, and nothing is heard'(bench, target) {
        const agent = { ...(await bench.start(target, sh('echo heard; exec sleep 1000'))), incarnation: 'another' }
        is('agentStatus of another incarnation', (await bench.backend.agentStatus(agent, call())).is, 'restarted')
        for await (const { bytes } of bench.backend.attach(agent, undefined, call()))
          is('the output that attach to another incarnation tells', Buffer.from(bytes).toString(), '')
      },
    }),
    ...suite.own('agents', {
      async 'The agent of a sandbox has an output and an end of its own'(bench) {
        const target = await bench.create({ agent: { command: gated('echo here; exit 3') } })
        await bench.go(target)
        const agent = { ...target, key: undefined }
        is("the output of the sandbox's own agent", await bench.hear(agent), 'here\n')
        const status = await bench.end(agent)
        is("exit code and signal of the sandbox's own agent", endOf(status), [3, null])
        isNot('oomKilled of one that ended by itself', status.oomKilled, true)
      },

      async 'A sandbox whose agent has ended can be used or woken, or says that it is lost; and it can be ended'(
        bench,
      ) {
        const target = await bench.create({ agent: { command: gated('rm -f go; exit 0') } })
        await bench.go(target)
        await bench.end({ ...target, key: undefined })
        const seen = await bench.look(target.ref)
        if (seen.is === 'running') is('the output of run', await bench.run(target, 'echo usable'), 'usable\n')
        else if (seen.is === 'suspended') await bench.resume(target.ref, seen.checkpointRef)
        else is('look at one that neither runs nor sleeps after the end of its agent', seen.is, 'lost')
        await bench.remove(target.ref)
      },

      async 'A sandbox without an agent says so'(bench) {
        const target = await bench.create()
        const status = await bench.backend.agentStatus({ ...target, key: undefined }, call())
        is('agentStatus of a sandbox without an agent', status, { is: 'none' })
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
          assertKilled(await bench.end(agent), 'beside a sidecar that lives')
          is('the output of an agent that is dead', await bench.hear(agent), 'last words\n')
          if (!sidecar.endsWithAgent) is('whether its sidecar lives', await sidecar.isAlive(target.ref), true)
          await bench.remove(target.ref)
          await until(
            'the sidecar ends with its sandbox',
            async () => !(await sidecar.isAlive(target.ref)) || undefined,
          )
        },

        async 'A sidecar that is dead says nothing of the agent'(bench) {
          const target = await bench.create({ agent: { command: IDLING, sidecar: { command: sh('exit 1') } } })
          await until('the sidecar has ended', async () => !(await sidecar.isAlive(target.ref)) || undefined)
          const status = await bench.backend.agentStatus({ ...target, key: undefined }, call())
          is('agentStatus after the end of its sidecar', status, { is: 'running' })
          const { incarnation } = await bench.awake(target.ref)
          is('the incarnation after the end of its sidecar', incarnation, target.incarnation)
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
          assertKilled(status, 'for its memory')
          is('oomKilled of one that was killed for its memory', status.oomKilled, true)
          is('the output of one that was killed for its memory', await bench.hear(agent), 'hungry\n')
          if (sidecar !== 'none' && !sidecar.endsWithAgent)
            is('whether its sidecar lives', await sidecar.isAlive(target.ref), true)
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
function assertKilled(status: Terminated, how: string): void {
  const { exitCode, signal } = status
  holds(
    `agentStatus ${how} was expected to tell of SIGKILL, or of exit code ${EXIT_CODE_KILLED}, and was ${shown(status)}`,
    signal === 'SIGKILL' ? exitCode === null : exitCode === EXIT_CODE_KILLED,
  )
}
