import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import { Diet } from '../../support/kubernetes/runtime/memory-watch.ts'
import { readIfThere } from '../../support/process-table.ts'
import { stateOf } from '../e2b/fake-setup.ts'
import { EATING, nameOf, run, said, setup, sh, textOf, until } from './runtime-setup.ts'

const LITTLE = { memoryBytesMax: 32 << 20 }
const KILLED = { exitCode: 137, reason: 'OOMKilled' }

test('one whose main process wants too much is killed for it, and for nothing else', async () => {
  const { start } = await setup()
  const hungry = sh(`echo hungry; sleep 1; ${EATING}`)
  const containers = await Promise.all([start(hungry, LITTLE), start(hungry, LITTLE), start(hungry, LITTLE)])
  const beside = await start(sh('sleep 1000'), LITTLE)
  for (const container of containers) {
    expect(await container.ended).toMatchObject(KILLED)
    expect(textOf(container)).toBe('hungry\n')
  }
  expect(beside.end).toBeUndefined()
  expect(await beside.stop(10_000)).toMatchObject({ exitCode: 143, reason: 'Error' })
})

test('one that survives its hungry child goes on, and is told of it at its end', async () => {
  const { start } = await setup()
  const container = await start(sh(`sh -c '${EATING}' 2>/dev/null; echo $?; exit 0`), LITTLE)
  expect(await container.ended).toMatchObject({ exitCode: 0, reason: 'OOMKilled' })
  expect(textOf(container, 'stdout')).toBe('137\n')
})

test('one that ends with its hungry child ends like that', async () => {
  const { start } = await setup()
  const container = await start(sh(`sh -c '${EATING}' || exit`), LITTLE)
  expect(await container.ended).toMatchObject(KILLED)
})

test('what runs in it besides is of its memory', async () => {
  const { volume, start } = await setup()
  const container = await start(sh(`${until('go')}; exit 0`), LITTLE)
  expect(await run(container, EATING)).toMatchObject({ exitCode: 137 })
  expect(await run(container, 'pwd')).toMatchObject({ stdout: `${volume}\n`, exitCode: 0 })
  await writeFile(path.join(volume, 'go'), '')
  expect(await container.ended).toMatchObject({ exitCode: 0, reason: 'OOMKilled' })
})

test('of some that have too much only together, one is killed', async () => {
  const { start } = await setup()
  const holding = '{ dd if=/dev/zero bs=20000000 count=1; echo lost $? >&2; } | sleep 1000'
  const container = await start(sh(`${holding} & ${until('go')}; ${holding} & wait`), LITTLE)
  const isHeld = (pid: number) => /^RssAnon:\s+(19|2\d)\d{3} kB/m.test(readIfThere(`/proc/${pid}/status`))
  await expect.poll(() => container.pids.filter(isHeld).length).toBe(1)
  await run(container, 'touch go')
  await said(container, 'lost 137')
  expect(container.pids.filter((pid) => nameOf(pid) === 'dd').length).toBe(1)
  expect(container.end).toBeUndefined()
  expect(await container.kill()).toMatchObject(KILLED)
})

test('many that want little are no concern', async () => {
  const { start } = await setup()
  const container = await start(
    sh('for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15; do sleep 0.3 & done; wait; exit 0'),
    LITTLE,
  )
  expect(await container.ended).toMatchObject({ exitCode: 0, reason: 'Completed' })
})

test('one that is refused memory while nobody looks was killed for it, too', async () => {
  const { start } = await setup()
  const container = await start(sh(`echo hungry; ${EATING}`), LITTLE)
  const [pid = 0] = container.pids
  const until = Date.now() + 30_000
  while (stateOf(pid) !== undefined && Date.now() < until); // nothing else happens in this process meanwhile
  expect(await container.ended).toMatchObject(KILLED)
  expect(textOf(container)).toBe('hungry\n')
})

test('one that breaks, and was seen to have little, has not died of its memory', () => {
  const diet = new Diet({ mark: 'nobody', onKill: () => {}, ...LITTLE })
  const breaksAfter = (...seen: number[]) => {
    for (const bytes of seen) diet.note(bytes)
    return diet.hasBroken(139)
  }
  expect(breaksAfter(1 << 20, 1 << 20)).toBe(false)
  expect(breaksAfter(20 << 20, 0)).toBe(true)
  expect(diet.hasBroken(1)).toBe(false)
  expect(breaksAfter(1 << 20, 0)).toBe(false)
})

test('a program of many threads and much address space runs under a limit', async () => {
  const { start } = await setup()
  const container = await start([process.execPath, '-e', 'console.log("runs")'], { memoryBytesMax: 128 << 20 })
  expect(await container.ended).toMatchObject({ exitCode: 0, reason: 'Completed' })
  expect(textOf(container)).toBe('runs\n')
})
