import { expect, test } from 'vitest'
import type { Execution } from '../../src/index.ts'
import { forkWorker } from '../support/crash.ts'
import { isThorough } from '../support/thorough.ts'
import { describeExecutions, textOf } from './setup.ts'

const SANDBOXES = 20
const EACH = 50
const ROUNDS = isThorough ? 20 : 2

describeExecutions(
  'a thousand executions at once on one worker',
  (world) => {
    test('are all followed, and each has its own output and end', { timeout: 180_000 }, async () => {
      const { fleet, provider } = world()
      const worker = await forkWorker(world())
      const sandboxes = await Promise.all(Array.from({ length: SANDBOXES }, () => world().running()))
      const idle = await worker.measure()
      const askedAt = performance.now()
      const executions: Execution[] = []
      for (const { id } of sandboxes) {
        const answers = await Promise.all(Array.from({ length: EACH }, () => fleet.execute(id, { command: ['work'] })))
        executions.push(...answers.map(({ execution }) => execution))
      }
      const agents = () =>
        executions.flatMap(({ id, sandboxId }) => provider.instancesOf(sandboxId)[0]?.agents.get(id) ?? [])
      // Who has broken off attaches twice, so that alone does not mean that all of them have begun.
      await expect.poll(() => provider.count('attach'), { timeout: 60_000 }).toBeGreaterThanOrEqual(executions.length)
      await expect.poll(() => agents().length, { timeout: 60_000 }).toBe(executions.length)
      const startedMs = Math.round(performance.now() - askedAt)
      const starting = await worker.measure()

      for (let round = 0; round < ROUNDS; round++) {
        for (const [nth, agent] of agents().entries()) agent.write(`agent ${nth} says ${round}\n`)
        await new Promise((resolve) => setTimeout(resolve, 100))
      }
      const printing = await worker.measure()
      const exitedAt = performance.now()
      for (const agent of agents()) agent.exit()
      const ended = await Promise.all(executions.map(({ id }) => fleet.execution(id, { wait: '90s' })))
      const endedMs = Math.round(performance.now() - exitedAt)
      const ending = await worker.measure()
      expect(ended.filter(({ execution }) => execution.status !== 'succeeded')).toEqual([])
      for (const [nth, { id }] of executions.entries()) {
        if (nth % 25 !== 0) continue
        const lines = Array.from({ length: ROUNDS }, (_, round) => `agent ${nth} says ${round}\n`)
        expect(await textOf(world(), id)).toBe(lines.join(''))
      }
      console.info(
        `1,000 executions on one worker: started in ${startedMs} ms, ended in ${endedMs} ms`,
        JSON.stringify({ idle, starting, printing, ending }),
      )
    })
  },
  { worker: false, stores: ['redis'] },
)
