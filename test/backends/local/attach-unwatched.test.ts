import { expect, test, vi } from 'vitest'
import { CALL, KEY, setup, sh } from './setup.ts'

vi.mock('node:fs', async (original) => ({
  ...(await original<typeof import('node:fs')>()),
  watch: () => {
    throw Object.assign(new Error('ENOSPC: System limit for number of file watchers reached'), { code: 'ENOSPC' })
  },
}))

test('where the system has no watch left to give, output is heard all the same, up to its end', async () => {
  const bench = await setup()
  await bench.create()
  const agent = await bench.start(sh('echo one; until [ -e go ]; do sleep 0.01; done; echo two'))
  let heard = ''
  for await (const { bytes } of bench.backend.attach(agent, undefined, CALL)) {
    heard += Buffer.from(bytes)
    if (heard === 'one\n') await bench.backend.run(await bench.running(agent.ref), 'touch go', CALL)
  }
  expect(heard).toBe('one\ntwo\n')
  expect(await bench.output(KEY)).toBe(heard)
})
