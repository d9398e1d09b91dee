import { writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setImmediate as nextTurn } from 'node:timers/promises'
import { expect, test } from 'vitest'
import { LineCutter } from '../../support/kubernetes/runtime/line-cutter.ts'
import { ContainerLog, type LogEntry } from '../../support/kubernetes/runtime/log.ts'
import { said, setup, sh, textOf, until } from './runtime-setup.ts'

const line = (text: string, at = 1n): LogEntry => ({
  atNs: at,
  stream: 'stdout',
  bytes: Buffer.from(text),
  isPartial: false,
})

async function gather(entries: AsyncIterable<LogEntry>): Promise<string[]> {
  const heard: string[] = []
  for await (const { bytes } of entries) heard.push(bytes.toString())
  return heard
}

test('it has the lines of both outputs, and of the last one that it was not ended', async () => {
  const { start } = await setup()
  const container = await start(sh('echo one; echo; printf "two\\nthree"; echo oh >&2'))
  await container.ended
  const of = (stream: string) => container.log.snapshot().filter((entry) => entry.stream === stream)
  expect(of('stdout').map(({ bytes, isPartial }) => [bytes.toString(), isPartial])).toEqual([
    ['one', false],
    ['', false],
    ['two', false],
    ['three', true],
  ])
  expect(of('stderr')).toMatchObject([{ bytes: Buffer.from('oh'), isPartial: false }])
})

test('a line is in it when it is finished', async () => {
  const { volume, start } = await setup()
  const container = await start(sh(`printf half; echo said >&2; ${until('go')}; echo " and half"`))
  await said(container, 'said')
  await nextTurn()
  expect(textOf(container, 'stdout')).toBe('')
  await writeFile(path.join(volume, 'go'), '')
  await container.ended
  expect(textOf(container, 'stdout')).toBe('half and half\n')
})

test.each([
  ['16383\\n', '16383.'],
  ['16384\\n', '16384.'],
  ['16385\\n', '16384~ 1.'],
  ['40000\\n', '16384~ 16384~ 7232.'],
  ['16384', '16384~'],
  ['100 16283\\n', '16383.'],
  ['100 16284\\n', '16384.'],
  ['100 16284 \\n', '16384~ 0.'],
  ['100 16285\\n', '16384~ 1.'],
  ['100', '100~'],
  ['1\\n2\\n\\n3', '1. 2. 0. 3~'],
])('where so many bytes come as %s, they are written as %s', (pieces, expected) => {
  const written: string[] = []
  const cutter = new LineCutter((bytes, isPartial) => written.push(`${bytes.length}${isPartial ? '~' : '.'}`))
  for (const piece of pieces.split(' '))
    cutter.take(Buffer.from(piece.replaceAll('\\n', '\n').replaceAll(/\d+/g, (count) => 'x'.repeat(Number(count)))))
  cutter.flush()
  expect(written.join(' ')).toBe(expected)
})

test('a line that is never finished is in it as soon as 16 KiB are full', async () => {
  const { start } = await setup()
  const container = await start(sh('head -c 20000 /dev/zero; echo said >&2; exec sleep 1000'))
  const lengths = () =>
    container.log.snapshot().flatMap(({ stream, bytes }) => (stream === 'stdout' ? bytes.length : []))
  await said(container, 'said')
  await expect.poll(lengths).toEqual([16_384])
  await container.kill()
  expect(lengths()).toEqual([16_384, 3_616])
  expect(container.log.snapshot().filter(({ isPartial }) => isPartial).length).toBe(2)
})

test('every line has its own time, which is the true one', async () => {
  const { start } = await setup()
  const before = BigInt(Date.now()) * 1_000_000n
  const container = await start(sh('i=0; while [ $i -lt 500 ]; do echo $i; i=$((i+1)); done'))
  await container.ended
  const times = container.log.snapshot().map(({ atNs }) => atNs)
  expect(times.length).toBe(500)
  expect(new Set(times).size).toBe(500)
  expect(times).toEqual(times.toSorted((a, b) => Number(a - b)))
  expect(times[0]).toBeGreaterThanOrEqual(before)
  expect(times.at(-1)).toBeLessThan(BigInt(Date.now() + 1) * 1_000_000n)
})

test('many lines have the same time where the clock is coarse', async () => {
  const { start } = await setup({ coarseClock: true })
  const container = await start(sh('i=0; while [ $i -lt 500 ]; do echo $i; i=$((i+1)); done'))
  await container.ended
  const times = container.log.snapshot().map(({ atNs }) => atNs)
  expect(new Set(times).size).toBeLessThan(50)
  expect(times).toEqual(times.toSorted((a, b) => Number(a - b)))
})

test('nobody has to read what a container says', async () => {
  const { start } = await setup()
  const container = await start(sh('head -c 5000000 /dev/zero; exit 6'))
  expect(await container.ended).toMatchObject({ exitCode: 6 })
  expect(textOf(container).length).toBe(5_000_000)
})

test('who follows it hears all from a place on until the container has ended, however many they are', async () => {
  const { volume, start } = await setup()
  const container = await start(sh(`echo one; echo two; ${until('go')}; echo three; printf four`))
  const following = [
    gather(container.log.entries()),
    gather(container.log.entries(1)),
    gather(container.log.entries(3)),
  ]
  await said(container, 'two')
  await writeFile(path.join(volume, 'go'), '')
  const all = ['one', 'two', 'three', 'four']
  expect(await Promise.all(following)).toEqual([all, all.slice(1), all.slice(3)])
  expect(await gather(container.log.entries())).toEqual(all)
  expect(await gather(container.log.entries(9))).toEqual([])
})

test('who leaves is let go at once', async () => {
  const log = new ContainerLog()
  const follower = log.entries()
  const next = follower.next()
  await follower.return?.()
  expect(await next).toMatchObject({ done: true })
  expect(await follower.next()).toMatchObject({ done: true })
  const abort = new AbortController()
  const following = gather(log.entries(0, { signal: abort.signal }))
  log.append(line('heard'))
  await nextTurn()
  abort.abort()
  expect(await following).toEqual(['heard'])
  expect(await gather(log.entries(0, { signal: abort.signal }))).toEqual([])
})

test('it can be written by hand, and loses its beginning, and those who follow it go on behind that', async () => {
  const log = new ContainerLog()
  for (const text of ['one', 'two', 'three']) log.append(line(text))
  const follower = log.entries()
  expect((await follower.next()).value).toMatchObject({ bytes: Buffer.from('one') })
  log.drop(2)
  expect(log.snapshot()).toEqual([line('three')])
  expect([log.firstIndex, log.nextIndex]).toEqual([2, 3])
  expect((await follower.next()).value).toMatchObject({ bytes: Buffer.from('three') })
  log.drop(9)
  log.append(line('four'))
  log.close()
  expect(await gather(follower)).toEqual(['four'])
  expect(await gather(log.entries(3))).toEqual(['four'])
})

test('of what is too much, the oldest goes', () => {
  const log = new ContainerLog()
  const mebibyte = Buffer.alloc(1 << 20)
  for (let at = 0n; at < 52n; at++) log.append({ ...line('', at), bytes: mebibyte })
  const kept = log.snapshot()
  expect(kept[0]?.atNs).toBe(10n)
  expect(kept.at(-1)?.atNs).toBe(51n)
  expect(log.nextIndex).toBe(52)
})
