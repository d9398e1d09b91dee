import type { Piece } from '../backends/backend.ts'
import { fails, givenUp, holds, is, shown } from './assertions.ts'
import { call, gated, newId, sh, until } from './bench.ts'
import type { Case } from './subject.ts'
import type { Suite } from './suite.ts'

const LINES = 20_000
const MANY = sh(`i=0; while [ $i -lt ${LINES} ]; do echo line $i; i=$((i+1)); done`)
const ALL = Array.from({ length: LINES }, (_, at) => `line ${at}\n`).join('')

/** An agent's output: told from a cursor on, neither losing nor doubling a byte. */
export function outputCases(suite: Suite): Case[] {
  return [
    ...suite.shared('output', {
      async 'From the cursor of any piece on, the rest is told, and nothing twice (incident R)'(bench, target) {
        const script = 'for i in 1 2 3 4 5 6; do printf "piece %s ü\\n" $i; sleep 0.1; done; printf "no newline"'
        const agent = await bench.start(target, sh(script))
        const pieces: Piece[] = []
        for await (const piece of bench.backend.attach(agent, undefined, call())) pieces.push(piece)
        const whole = await bench.bytes(agent)
        is(
          'all of the output',
          whole.toString(),
          `${[1, 2, 3, 4, 5, 6].map((at) => `piece ${at} ü\n`).join('')}no newline`,
        )
        let at = 0
        for (const { bytes, cursor } of pieces) {
          is(`the piece of attach at byte ${at}`, Buffer.from(bytes), whole.subarray(at, at + bytes.length))
          at += bytes.length
          is(`attach from the cursor behind byte ${at}`, await bench.bytes(agent, cursor), whole.subarray(at))
        }
      },

      async 'What is said is heard while it runs, by all who listen'(bench, target) {
        const agent = await bench.start(target, sh('echo one; until [ -e heard ]; do sleep 0.02; done; echo two'))
        const listen = async (backend = bench.backend) => {
          let heard = ''
          let wentOn = false
          for await (const { bytes } of backend.attach(agent, undefined, call())) {
            heard += Buffer.from(bytes)
            if (heard === 'one\n' && !wentOn) {
              wentOn = true
              await bench.run(target, 'touch heard')
            }
            if (heard.endsWith('two\n')) break
          }
          return heard
        }
        const heard = await Promise.all([listen(), listen(), listen(await bench.another())])
        is('what three heard by attach, while it ran,', heard, ['one\ntwo\n', 'one\ntwo\n', 'one\ntwo\n'])
      },

      async 'Much of it is told as it is, in pieces of a size that fits'(bench, target) {
        const agent = await bench.start(target, MANY)
        let heard = ''
        let longest = 0
        let cursor: string | undefined
        await until('all was heard', async () => {
          for await (const piece of bench.backend.attach(agent, cursor, call())) {
            cursor = piece.cursor
            heard += Buffer.from(piece.bytes)
            longest = Math.max(longest, piece.bytes.length)
          }
          return heard.length >= ALL.length || undefined
        })
        holds(`attach told ${heard.length} bytes of ${ALL.length}, and not the same`, heard === ALL)
        holds(`attach was expected to tell no more than 1 MiB at a time, and told ${longest} bytes`, longest <= 1 << 20)
      },

      async 'Bytes are what they were'(bench, target) {
        const octal = Array.from({ length: 256 }, (_, byte) => `\\${byte.toString(8).padStart(3, '0')}`).join('')
        const agent = await bench.start(target, sh(`printf '${octal}'`))
        const all = Array.from({ length: 256 }, (_, byte) => byte)
        is('the output of an agent that prints every byte there is', [...(await bench.bytes(agent))], all)
      },

      async 'A last piece is the last, and comes when the agent has ended'(bench, target) {
        const agent = await bench.start(target, sh('echo end; exit 0'))
        let wasLast = false
        for await (const { isLast } of bench.backend.attach(agent, undefined, call())) {
          holds('attach told more after the piece that it had called the last', !wasLast)
          wasLast = isLast ?? false
          if (wasLast)
            is('agentStatus after the last piece', (await bench.backend.agentStatus(agent, call())).is, 'terminated')
        }
      },

      async 'A place at which no output ever was is refused'(bench, target) {
        const agent = await bench.start(target, sh('echo short'))
        is('the output', await bench.hear(agent), 'short\n')
        for (const cursor of ['', 'nonsense', '-1', '../x']) {
          const listening = first(bench.backend.attach(agent, cursor, call()))
          await fails(`attach from the cursor ${shown(cursor)}`, 'spec_invalid', listening)
        }
      },

      async 'Who has heard enough leaves, and who gives up fails with the reason'(bench, target) {
        const agent = await bench.start(target, sh('echo one; exec sleep 1000'))
        await first(bench.backend.attach(agent, undefined, call()))
        const reason = new Error('given up')
        const abort = new AbortController()
        const listening = async () => {
          for await (const { bytes } of bench.backend.attach(agent, undefined, { signal: abort.signal }))
            if (bytes.length > 0) setImmediate(() => abort.abort(reason))
        }
        await givenUp('attach', listening(), reason)
        const status = await bench.backend.agentStatus(agent, call())
        is('agentStatus after an attach that was given up', status, { is: 'running' })
      },
    }),
    ...suite.own('output', {
      async 'The same holds for the agent that the sandbox was made with (incident R)'(bench) {
        const script = 'for i in 1 2 3 4; do printf "piece %s ü\\n" $i; sleep 0.1; done; printf "no newline"; sleep 0.5'
        const target = await bench.create({ agent: { command: gated(script) } })
        await bench.go(target)
        const agent = { ...target, key: undefined }
        const pieces: Piece[] = []
        for await (const piece of bench.backend.attach(agent, undefined, call())) pieces.push(piece)
        const whole = await bench.bytes(agent)
        is('all of the output', whole.toString(), `${[1, 2, 3, 4].map((at) => `piece ${at} ü\n`).join('')}no newline`)
        let at = 0
        for (const { bytes, cursor } of pieces) {
          at += bytes.length
          is(`attach from the cursor behind byte ${at}`, await bench.bytes(agent, cursor), whole.subarray(at))
        }
      },

      async 'Who listens to a sandbox that is ended is let go'(bench) {
        const target = await bench.create()
        const agent = await bench.start(target, sh('echo one; exec sleep 1000'), newId('exe'))
        const listening = async () => {
          for await (const _piece of bench.backend.attach(agent, undefined, call())) await bench.remove(target.ref)
        }
        await listening().catch((error: unknown) =>
          fails(
            'attach to a sandbox that is ended meanwhile',
            ['sandbox_expired', 'sandbox_unreachable', 'overtaken'],
            Promise.reject(error),
          ),
        )
        await fails('attach after end', 'sandbox_expired', first(bench.backend.attach(agent, undefined, call())))
      },
    }),
  ]
}

async function first(pieces: AsyncIterable<Piece>): Promise<Piece | undefined> {
  for await (const piece of pieces) return piece
  return undefined
}
