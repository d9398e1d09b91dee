import { appendFile } from 'node:fs/promises'
import { expect, test, vi } from 'vitest'
import { outputFile } from '../../../src/backends/local/agent-files.ts'
import { CALL, IDLING, KEY, setup } from './setup.ts'

/** What happens while somebody looks at the agent. */
const meanwhile = vi.hoisted(() => ({ happens: async () => {} }))

vi.mock('../../../src/backends/local/agent-status.ts', async (original) => {
  const real = await original<typeof import('../../../src/backends/local/agent-status.ts')>()
  const lookAtAgent: typeof real.lookAtAgent = async (...args) => {
    await meanwhile.happens()
    return real.lookAtAgent(...args)
  }
  return { ...real, lookAtAgent }
})

test('what an agent prints after the last read, and before it is seen to have ended, is not lost', async () => {
  const bench = await setup()
  await bench.create()
  const agent = await bench.start(IDLING)
  const file = outputFile((await bench.instance()).folder, KEY)
  let looks = 0
  meanwhile.happens = async () => {
    if (++looks !== 2) return
    await appendFile(file, 'late')
    await bench.backend.stopAgent(agent, CALL)
  }
  let heard = ''
  for await (const { bytes } of bench.backend.attach(agent, undefined, CALL)) heard += Buffer.from(bytes)
  expect(heard).toBe('late')
})
