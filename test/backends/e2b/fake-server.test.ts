import { Sandbox } from 'e2b'
import { expect, onTestFinished, test } from 'vitest'
import { FakeE2b, type FakeE2bOptions } from '../../support/e2b/server.ts'

async function setup(options?: FakeE2bOptions) {
  const e2b = await FakeE2b.start(options)
  onTestFinished(() => e2b.stop())
  const at = e2b.connection
  return { e2b, at, create: (more = {}) => Sandbox.create('base', { ...at, ...more }) }
}

test('a sandbox runs, sleeps, wakes, is copied and ends', async () => {
  const { e2b, at, create } = await setup()
  const sbx = await create({ metadata: { 'user id': 'a&b' } })
  expect(await sbx.commands.run('echo hi; echo $HOME')).toMatchObject({
    stdout: `hi\n${e2b.folderOf(sbx.sandboxId)}\n`,
  })
  const counting = await sbx.commands.run('while :; do date +%s%N; sleep 0.01; done', {
    background: true,
    timeoutMs: 0,
  })
  expect((await sbx.commands.list()).map(({ pid }) => pid)).toEqual([counting.pid])
  expect(await sbx.pause()).toBe(true)
  await expect(counting.wait()).rejects.toThrow('killed or reached its end of life')
  expect(await sbx.isRunning()).toBe(false)
  expect(await Sandbox.getInfo(sbx.sandboxId, at)).toMatchObject({ state: 'paused', metadata: { 'user id': 'a&b' } })
  await sbx.connect()
  let out = ''
  const again = await sbx.commands.connect(counting.pid, {
    onStdout: (text) => {
      out += text
    },
  })
  await expect.poll(() => out.length).toBeGreaterThan(50)
  expect(await again.kill()).toBe(true)
  await expect(again.wait()).rejects.toThrow('signal: killed')
  expect(await Sandbox.list({ ...at, query: { metadata: { 'user id': 'a&b' } } }).nextItems()).toHaveLength(1)
  const { snapshotId } = await sbx.createSnapshot()
  expect(await Sandbox.deleteSnapshot(snapshotId, at)).toBe(true)
  await sbx.setTimeout(1_000)
  expect(await sbx.kill()).toBe(true)
  expect(await sbx.kill()).toBe(false)
})
