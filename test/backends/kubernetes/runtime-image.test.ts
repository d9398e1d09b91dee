import { existsSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { ExecFailed } from '../../support/kubernetes/runtime/runtime.ts'
import { movingAmong } from '../../support/machine.ts'
import { listProcesses } from '../../support/process-table.ts'
import { stateOf } from '../e2b/fake-setup.ts'
import { EATING, IDLING, run, said, setup, sh, textOf, until } from './runtime-setup.ts'

const COUNTING = sh('i=0; while :; do i=$((i+1)); echo $i; sleep 0.002; done')

const numbersOf = (text: string) => text.trim().split('\n').map(Number)

test('containers whose memory is kept were killed, for all that can be seen, and their processes stand still', async () => {
  const { runtime, folder, start } = await setup()
  const [agent, sidecar] = [await start(COUNTING), await start(sh('setsid sleep 1000 & sleep 1000'))]
  await said(agent, '3')
  const running = await agent.exec({ command: ['cat'], stdin: true, tty: false })
  for (const output of [running.stdout, running.stderr]) output.resume()
  const pids = [...agent.pids, ...sidecar.pids]
  await runtime.checkpoint([agent, sidecar])
  for (const container of [agent, sidecar]) {
    expect(await container.ended).toMatchObject({ exitCode: 137, reason: 'Error' })
    expect(container.isFrozen).toBe(true)
    expect(container.log.isClosed).toBe(true)
    expect(container.pids).toEqual([])
    await expect(run(container, 'true')).rejects.toThrow(ExecFailed)
    expect(await container.kill()).toBe(container.end)
  }
  expect(await running.ended).toEqual({ exitCode: 137 })
  const alive = () => listProcesses().filter(({ pid }) => pids.includes(pid))
  expect(alive().length).toBeGreaterThanOrEqual(4)
  // A process that is told to stop while the system works for it stands still when that is done.
  await expect.poll(() => movingAmong(alive())).toEqual([])
  expect(existsSync(path.join(folder, '1'))).toBe(true)
})

test('they go on in new containers, in the same processes, and no word is lost or said twice', async () => {
  const { runtime, asked, start } = await setup()
  const [before, sidecar] = [await start(COUNTING, { workingDir: undefined }), await start(IDLING)]
  await said(before, '3')
  const [main] = before.pids
  const image = await runtime.checkpoint([before, sidecar])
  const restored = await runtime.restore(image, [
    { from: sidecar.id, to: asked(['ignored']) },
    { from: before.id, to: asked(['ignored'], { env: { COLOUR: 'blue' } }) },
  ])
  const [other, after] = restored
  if (!other || !after) expect.unreachable()
  expect(after.pids).toContain(main)
  await expect.poll(() => after.log.nextIndex).toBeGreaterThan(5)
  expect(await run(after, 'echo $COLOUR')).toMatchObject({ stdout: 'blue\n' })
  expect(await after.stop(10_000)).toMatchObject({ exitCode: 143, startedAt: after.startedAt })
  expect(after.startedAt.getTime()).toBeGreaterThan(before.startedAt.getTime())
  const numbers = numbersOf(textOf(before) + textOf(after))
  expect(numbers).toEqual(numbers.map((_, at) => at + 1))
  expect(other.end).toBeUndefined()
  expect(await other.kill()).toMatchObject({ exitCode: 137 })
})

test('one that was restored ends as every container does, with its folder, and can be put to sleep again', async () => {
  const { runtime, folder, volume, asked, start } = await setup()
  let container = await start(sh(`printf half; setsid sleep 1000 & ${until('go')}; echo " whole"; exit 3`))
  await run(container, 'touch ~/own')
  for (let times = 0; times < 3; times++) {
    const image = await runtime.checkpoint([container])
    const [next] = await runtime.restore(image, [{ from: container.id, to: asked([]) }])
    if (!next) expect.unreachable()
    container = next
  }
  expect(existsSync(path.join(folder, '1', 'own'))).toBe(true)
  const pids = container.pids
  expect(pids.length).toBeGreaterThanOrEqual(2)
  await writeFile(path.join(volume, 'go'), '')
  expect(await container.ended).toMatchObject({ exitCode: 3, reason: 'Error' })
  expect(textOf(container)).toBe(' whole\n')
  expect(pids.map(stateOf)).toEqual(pids.map(() => undefined))
  expect(existsSync(path.join(folder, '1'))).toBe(false)
})

test('what is said between two lives is in the log of the first', async () => {
  const { runtime, start } = await setup()
  const container = await start(sh('head -c 100000 /dev/zero | tr "\\0" x; printf end; echo said >&2; exec sleep 1000'))
  await said(container, 'said')
  await runtime.checkpoint([container])
  expect(textOf(container, 'stdout')).toBe(`${'x'.repeat(100_000)}end`)
})

test('of one that says much in the meantime, nothing is lost', async () => {
  const { runtime, asked, start } = await setup()
  const before = await start(['awk', 'BEGIN { for (i = 1; i <= 5000; i++) printf "%01000d\\n", i }'])
  await said(before, '500')
  const image = await runtime.checkpoint([before])
  const [after] = await runtime.restore(image, [{ from: before.id, to: asked([]) }])
  if (!after) expect.unreachable()
  expect(await after.ended).toMatchObject({ exitCode: 0, reason: 'Completed' })
  const numbers = numbersOf(textOf(before) + textOf(after))
  expect(numbers).toEqual(Array.from({ length: 5000 }, (_, at) => at + 1))
})

test('an image is restored once, and only what is in it', async () => {
  const { runtime, asked, start } = await setup()
  const [one, two] = [await start(IDLING), await start(IDLING)]
  const pids = two.pids
  const image = await runtime.checkpoint([one, two])
  await expect(runtime.restore(image, [{ from: 'nobody', to: asked([]) }])).rejects.toThrow('no memory of nobody')
  const twice = [one, one].map(({ id }) => ({ from: id, to: asked([]) }))
  await expect(runtime.restore(image, twice)).rejects.toThrow('no memory')
  const [restored] = await runtime.restore(image, [{ from: one.id, to: asked([]) }])
  expect(pids.map(stateOf)).toEqual([undefined])
  await expect(runtime.restore(image, [{ from: one.id, to: asked([]) }])).rejects.toThrow('no memory')
  await runtime.discard(image)
  expect(restored?.pids.length).toBe(1)
})

test('an image that is discarded takes its processes and their folders with it, and so does the end of the runtime', async () => {
  const { runtime, folder, start } = await setup()
  const [one, two] = [await start(IDLING), await start(IDLING)]
  const pids = [one, two].flatMap((container) => container.pids)
  const [first] = [await runtime.checkpoint([one]), await runtime.checkpoint([two])]
  await runtime.discard(first)
  expect(pids.map(stateOf)).toEqual([undefined, 'T'])
  expect(existsSync(path.join(folder, '1'))).toBe(false)
  await runtime.discard(first)
  await runtime.stop()
  expect(pids.map(stateOf)).toEqual([undefined, undefined])
})

test('where one has ended, the others go on, and there is no image', async () => {
  const { runtime, start } = await setup()
  const [alive, dead] = [await start(COUNTING), await start(['true'])]
  await dead.ended
  await expect(runtime.checkpoint([alive, dead])).rejects.toThrow(`${dead.id} has ended`)
  expect(alive.isFrozen).toBe(false)
  const { nextIndex } = alive.log
  await expect.poll(() => alive.log.nextIndex).toBeGreaterThan(nextIndex)
  const both = await Promise.allSettled([runtime.checkpoint([alive]), alive.kill()])
  expect(both[0].status).toBe('rejected')
  expect(both[1]).toMatchObject({ value: { exitCode: 137 } })
})

test('one that dies in its image is dead when it is restored', async () => {
  const { runtime, asked, start } = await setup()
  const container = await start(IDLING)
  const [pid = 0] = container.pids
  const image = await runtime.checkpoint([container])
  process.kill(pid, 'SIGKILL')
  const [restored] = await runtime.restore(image, [{ from: container.id, to: asked([]) }])
  expect(await restored?.ended).toMatchObject({ exitCode: 137 })
})

test('the memory of one that was restored is limited as well', async () => {
  const { runtime, volume, asked, start } = await setup()
  const container = await start(sh(`${until('go')}; ${EATING}`))
  const image = await runtime.checkpoint([container])
  const [restored] = await runtime.restore(image, [{ from: container.id, to: asked([], { memoryBytesMax: 16 << 20 }) }])
  await writeFile(path.join(volume, 'go'), '')
  expect(await restored?.ended).toMatchObject({ exitCode: 137, reason: 'OOMKilled' })
})
