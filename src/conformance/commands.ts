import { fails, givenUp, holds, is, matches } from './assertions.ts'
import { call, IDLING, newId, sh, until } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

/** Commands that are run to their end, as those that wake a sandbox. */
export function commandCases(suite: Suite): Case[] {
  const { sidecar } = suite.subject.claims
  return [
    ...suite.shared('commands', {
      async 'A command says how it ended and what it printed, whatever it is made of'(bench, target) {
        const said = await bench.backend.run(target, `echo "it's" 'two'; echo '\\n' ü; echo err >&2; exit 3`, call())
        is('the exit code of run', said.exitCode, 3)
        for (const printed of [/it's two/, /ü/, /err/]) matches('the output of run', said.output, printed)
      },

      async 'What one command or agent leaves in a file, the next one finds'(bench, target) {
        await bench.run(target, 'echo first > kept')
        const agent = await bench.start(target, sh('cat kept; echo second >> kept'))
        is('what an agent reads of a file that run has written', await bench.hear(agent), 'first\n')
        const kept = await bench.run(target, 'cat kept')
        is('what run reads of a file that an agent has written', kept, 'first\nsecond\n')
      },

      async 'A command that prints much, or has a long text, is run as it is'(bench, target) {
        const long = `: ${'x'.repeat(30_000)}; i=0; while [ $i -lt 5000 ]; do echo line $i; i=$((i+1)); done; echo end`
        const said = await bench.backend.run(target, long, call())
        is('the exit code of run, of a long command,', said.exitCode, 0)
        const end = said.output.slice(-100)
        holds(
          `run was expected to answer with all that was printed, and that ends so: ${end}`,
          end.endsWith('line 4999\nend\n'),
        )
      },

      async 'A command that is given up fails with the reason, and the sandbox goes on'(bench, target) {
        const reason = new Error('given up')
        const abort = new AbortController()
        const running = bench.backend.run(target, 'echo begun > begun; sleep 1000', { signal: abort.signal })
        const failing = givenUp('run', running, reason)
        await until(
          'it has begun',
          async () => (await bench.run(target, 'cat begun 2>/dev/null || :')) !== '' || undefined,
        )
        abort.abort(reason)
        await failing
        is('the output of run after one that was given up', await bench.run(target, 'echo on'), 'on\n')
      },
    }),
    ...suite.own('commands', {
      async 'What a command leaves running keeps nobody waiting, and is ended on request, with no other'(bench) {
        const target = await bench.create({
          agent: { command: IDLING, ...(sidecar !== 'none' && { sidecar: { command: IDLING } }) },
        })
        await bench.run(target, '(while :; do echo . >> ticks; sleep 0.05; done) > /dev/null 2>&1 &')
        const agent = await bench.start(target, sh('while :; do echo . >> tocks; sleep 0.05; done'))
        const count = (file: string) => bench.run(target, `cat ${file} 2>/dev/null | wc -c`).then(Number)
        await until('they tick', async () => ((await count('ticks')) > 0 && (await count('tocks')) > 0) || undefined)
        await bench.backend.endLingering(target, call())
        const counts = [await count('ticks'), await count('tocks')]
        if (sidecar !== 'none')
          is('whether the sidecar lives after endLingering', await sidecar.isAlive(target.ref), true)
        is('agentStatus of an agent after endLingering', (await bench.end(agent)).is, 'terminated')
        const own = await bench.backend.agentStatus({ ...target, key: undefined }, call())
        is("agentStatus of the sandbox's own agent after endLingering", own, { is: 'running' })
        await bench.run(target, 'sleep 0.2')
        const later = [await count('ticks'), await count('tocks')]
        is('what a command and an agent had written when endLingering was answered, and a moment later,', later, counts)
      },

      async 'Where a port is reached is told, or that it is not'(bench) {
        const { ref } = await bench.create({ wake: { previewPort: 8080 } })
        const url = await bench.backend.previewUrl(ref, 8080, call())
        if (url !== undefined) matches('the protocol of previewUrl', new URL(url).protocol, /^https?:$/)
      },
    }),
    ...suite.lent('commands', {
      async 'A command is not run in what sleeps, and does not wake it'(bench, target) {
        if (bench.backend.pausing === 'none') return
        await bench.suspend(target)
        await fails('run in what sleeps', 'overtaken', bench.backend.run(target, 'true', call()))
        const starting = bench.backend.startAgent(target, { key: newId('exe'), command: ['true'] }, call())
        await fails('startAgent in what sleeps', 'overtaken', starting)
        is('look after both', (await bench.look(target.ref)).is, 'suspended')
      },
    }),
  ]
}
