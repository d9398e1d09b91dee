import { expect, test } from 'vitest'
import { BRIEF, bytesOf, endOf, textOf, work } from '../executions/setup.ts'
import { forkWorker } from '../support/crash.ts'
import { describeIncident } from '../support/describe-world.ts'
import { isThorough } from '../support/thorough.ts'

describeIncident(
  'R: re-attaching to an output lost lines, or doubled them',
  (world) => {
    test.each(['reset', 'end'] as const)(
      'cut behind every single byte (%s), it is byte for byte what was printed',
      async (how) => {
        const text = 'one\ntwo\nthree\n— four ✓\n\0five\r\n'
        world().provider.breaksStreams = () => ({ afterBytes: 1, how })
        const { execution, agent } = await work(world())
        agent.write(text)
        await expect
          .poll(async () => (await world().fleet.execution(execution.id)).execution.outputBytes, { timeout: 30_000 })
          .toBe(Buffer.byteLength(text))
        agent.exit()
        expect((await endOf(world(), execution)).status).toBe('succeeded')
        expect(await textOf(world(), execution.id)).toBe(text)
      },
    )

    test('what an agent prints last is not lost, also when the output is cut while that is read', async () => {
      let cuts = 0
      world().provider.breaksStreams = () =>
        cuts++ < 20 ? { afterBytes: 3, how: cuts % 2 ? 'reset' : 'end' } : undefined
      const { execution, agent } = await work(world())
      agent.write('the last words, which are many, and were printed just before the end')
      agent.exit()
      expect((await endOf(world(), execution)).status).toBe('succeeded')
      expect(await textOf(world(), execution.id)).toBe(agent.bytes.toString())
    })
  },
  { patience: BRIEF, stores: ['postgres'] },
)

const MEGABYTES = isThorough ? 20 : 5
const CUTS = 200
/** So that all cuts have been made when three quarters have been read. */
const BYTES_BETWEEN_CUTS = (MEGABYTES * 1_000_000 * 0.7) / CUTS
const KILLED_AT = [0.2, 0.45, 0.7].map((part) => part * MEGABYTES * 1_000_000)

describeIncident(
  'R, at length',
  (world) => {
    test(`${MEGABYTES} MB of numbered lines, cut ${CUTS} times at random places, and over three killed workers`, {
      timeout: 240_000,
    }, async () => {
      const { fleet, provider } = world()
      let worker = await forkWorker(world(), { patience: BRIEF })
      const lines: string[] = []
      for (let nth = 0, bytes = 0; bytes < MEGABYTES * 1_000_000; nth++) {
        lines.push(`${nth}: ${'x'.repeat(nth % 100)}\n`)
        bytes += (lines.at(-1) as string).length
      }
      const all = Buffer.from(lines.join(''))
      let cuts = 0
      const random = randomNumbers(5)
      provider.breaksStreams = () => {
        if (cuts >= CUTS) return undefined
        cuts++
        return { afterBytes: 1 + Math.floor(random() * 2 * BYTES_BETWEEN_CUTS), how: random() < 0.5 ? 'reset' : 'end' }
      }
      const { execution, agent } = await work(world())
      agent.write(all)
      for (const bytes of KILLED_AT) {
        await expect
          .poll(async () => (await fleet.execution(execution.id)).execution.outputBytes, {
            timeout: 60_000,
            interval: 20,
          })
          .toBeGreaterThan(bytes)
        worker.child.kill('SIGKILL')
        worker = await forkWorker(world(), { patience: BRIEF })
      }
      agent.exit()
      const ended = await fleet.execution(execution.id, { wait: '120s' })
      expect(ended.execution).toMatchObject({ status: 'succeeded', outputBytes: all.length, truncated: false })
      expect(cuts).toBe(CUTS)
      expect((await bytesOf(world(), execution.id)).equals(all)).toBe(true)
      const row = await world()
        .db.selectFrom('executions')
        .select('fence')
        .where('id', '=', execution.id)
        .executeTakeFirst()
      expect(row?.fence).toBe(1 + KILLED_AT.length)
      // Those who died have failed; the job has not.
      expect((await world().eye.counts()).streams.failed).toBe(0)
    })
  },
  { worker: false, stores: ['redis'] },
)

/** The same numbers in every run (mulberry32). */
function randomNumbers(seed: number): () => number {
  let state = seed
  return () => {
    state = (state + 0x6d2b79f5) | 0
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state)
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 4_294_967_296
  }
}
