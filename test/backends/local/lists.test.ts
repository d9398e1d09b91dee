import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { cp, mkdir, readFile, rm, symlink, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import type { Backend, Listing, Lists, Pausing, Snapshots } from '../../../src/backends/backend.ts'
import { openLocalBackend } from '../../../src/backends/local/backend.ts'
import { makeHome } from '../../../src/backends/local/home.ts'
import { findSupervisor } from '../../../src/backends/local/instance.ts'
import { listCheckpoints, listInstances } from '../../../src/backends/local/lists.ts'
import { type FileLock, lockFile } from '../../../src/file-lock.ts'
import { type Bench, CALL, FIRST_LIFE, HOME_ID, REF, SANDBOX, setup, wanted } from './setup.ts'

const sandbox = (letter: string) => `sbx_${letter.repeat(26)}`
const refOf = (letter: string) => `${HOME_ID}.${sandbox(letter)}.${FIRST_LIFE}`
const listed = (letter: string) => ({ ref: refOf(letter), sandboxId: sandbox(letter), life: FIRST_LIFE })
const create = ({ backend }: Bench, letter: string) =>
  backend.create(wanted([], { sandboxId: sandbox(letter), spec: {} }), CALL)
const instancesIn = ({ folder }: Bench) => path.join(folder, 'test', 'instances')
const checkpointsIn = ({ folder }: Bench) => path.join(folder, 'test', 'checkpoints')

type List<T> = (cursor: string | undefined) => Promise<Listing<T>>

/** Page by page, to the last one. */
async function all<T>(list: List<T>, cursor?: string): Promise<T[]> {
  const { items, next } = await list(cursor)
  return next === undefined ? items : [...items, ...(await all(list, next))]
}

const instancesOf = ({ lists }: Backend) => all((cursor) => lists.instances(cursor, CALL))
const checkpointList = ({ lists }: Backend) => lists.checkpoints as Exclude<Lists['checkpoints'], 'none'>
const checkpointsOf = (backend: Backend) => all((cursor) => checkpointList(backend)(cursor, CALL))

async function pause({ backend, running }: Bench, ref: string): Promise<string> {
  const { checkpointRef } = await (backend.pausing as Pausing).suspend(await running(ref), { key: 'op_pause' }, CALL)
  return checkpointRef ?? expect.unreachable()
}

async function snapshot({ backend, running }: Bench, ref: string, key = 'op_snapshot'): Promise<string> {
  const asked = { key, name: undefined }
  return (await (backend.snapshots as Snapshots).take(await running(ref), asked, CALL)).checkpointRef
}

test('instances are listed with their owners, whatever they are doing, until they are ended', async () => {
  const bench = await setup()
  const { backend } = bench
  expect(await instancesOf(backend)).toEqual([])
  for (const letter of 'abcde') await create(bench, letter)
  await pause(bench, refOf('b'))
  for (const letter of 'cd') {
    const instance = await bench.instance(refOf(letter))
    process.kill((await findSupervisor(instance))?.pid ?? 0, 'SIGKILL')
    await expect.poll(async () => (await backend.look(instance.ref, CALL)).is).toBe('lost')
    if (letter === 'c') continue
    for (const file of ['started.json', 'supervisor.lock']) await rm(path.join(instance.folder, file))
  }
  const adopter = { sandboxId: sandbox('z'), life: `op_${'2'.repeat(26)}` }
  await backend.adopt(refOf('e'), adopter, CALL)
  const states = await Promise.all([...'abcde'].map(async (letter) => (await backend.look(refOf(letter), CALL)).is))
  expect(states).toEqual(['running', 'suspended', 'lost', 'changing', 'running'])

  const [a, b, c, d] = [...'abcd'].map(listed)
  expect(await instancesOf(backend)).toEqual([a, b, { ...c, isLost: true }, d, { ref: refOf('e'), ...adopter }])
  await backend.end(await bench.running(REF), CALL)
  await backend.end({ ref: refOf('c'), incarnation: null }, CALL)
  expect((await instancesOf(backend)).map(({ ref }) => ref)).toEqual([...'bde'].map(refOf))
})

test('two fleets in one folder do not list what is of the other, also where it lies between their own', async () => {
  const bench = await setup()
  const other = openLocalBackend({ folder: bench.folder, fleet: 'other' })
  for (const letter of 'ab') await create(bench, letter)
  const { ref } = await other.create(wanted([], { spec: {} }), CALL)
  const checkpointRef = await snapshot(bench, REF)
  expect(await instancesOf(other)).toEqual([{ ref, sandboxId: SANDBOX, life: FIRST_LIFE }])
  expect(await checkpointsOf(other)).toEqual([])
  expect(await instancesOf(bench.backend)).toEqual([...'ab'].map(listed))

  const { folder, labels } = await bench.instance()
  await writeFile(path.join(folder, 'instance.json'), JSON.stringify({ ...labels, fleet: 'other' }))
  expect(await instancesOf(bench.backend)).toEqual([listed('b')])
  await cp(
    path.join(checkpointsIn(bench), checkpointRef),
    path.join(bench.folder, 'other/checkpoints', checkpointRef),
    {
      recursive: true,
    },
  )
  await writeFile(path.join(bench.folder, 'other', 'home'), HOME_ID)
  expect(await checkpointsOf(other)).toEqual([])
})

test('what is there all the time is listed once, whatever comes and goes between the pages', async () => {
  const bench = await setup()
  const home = await makeHome(bench.folder, 'test')
  for (const letter of 'bdfhj') await create(bench, letter)
  for (const letter of 'bdfhj') await snapshot(bench, refOf(letter))
  const instances = (cursor?: string) => listInstances(home, cursor, CALL, 2)
  const checkpoints = (cursor?: string) => listCheckpoints(home, cursor, CALL, 2)
  expect(await all(instances)).toEqual([...'bdfhj'].map(listed))
  expect((await all(checkpoints)).map(({ sandboxId }) => sandboxId)).toEqual([...'bdfhj'].map(sandbox))

  const [first, firstCheckpoints] = [await instances(), await checkpoints()]
  expect(first).toEqual({ items: [...'bd'].map(listed), next: refOf('d') })
  for (const letter of 'dh') {
    await bench.backend.end(await bench.running(refOf(letter)), CALL) // d is where the cursor stands
    await (bench.backend.snapshots as Snapshots).discard(`${refOf(letter)}.op_snapshot`, CALL)
  }
  for (const letter of 'ag') {
    await create(bench, letter)
    await snapshot(bench, refOf(letter))
  }
  expect(await all(instances, first.next)).toEqual([...'fgj'].map(listed))
  const laterCheckpoints = await all(checkpoints, firstCheckpoints.next)
  expect(laterCheckpoints.map(({ sandboxId }) => sandboxId)).toEqual([...'fgj'].map(sandbox))

  await bench.backend.end(await bench.running(refOf('a')), CALL)
  expect(await instances(refOf('d'))).toEqual({ items: [...'fg'].map(listed), next: refOf('g') })
  expect(await instances(refOf('f'))).toEqual({ items: [...'gj'].map(listed), next: undefined }) // none behind it
})

test('a page looks at a bounded number, and the list goes on behind one on which there is nothing to show', async () => {
  const bench = await setup()
  await create(bench, 'a')
  await snapshot(bench, REF)
  for (const [folder, count] of [[instancesIn(bench), 500] as const, [checkpointsIn(bench), 100] as const]) {
    for (let nth = 0; nth < count; nth++) await mkdir(path.join(folder, `${HOME_ID}.sbx_${1000 + nth}`))
  }
  const { lists } = bench.backend
  expect(await lists.instances(undefined, CALL)).toEqual({ items: [], next: `${HOME_ID}.sbx_1499` })
  expect(await instancesOf(bench.backend)).toEqual([listed('a')])
  expect(await checkpointList(bench.backend)(undefined, CALL)).toEqual({ items: [], next: `${HOME_ID}.sbx_1099` })
  expect(await checkpointsOf(bench.backend)).toHaveLength(1)
})

test('checkpoints are listed with their sandbox and kind, also when their instance has ended', async () => {
  const bench = await setup()
  const { backend } = bench
  for (const letter of 'ab') await create(bench, letter)
  const taken = await snapshot(bench, REF)
  const paused = await pause(bench, REF)
  const other = await snapshot(bench, refOf('b'))
  const expected = [
    { ref: paused, sandboxId: SANDBOX, kind: 'pause' },
    { ref: taken, sandboxId: SANDBOX, kind: 'snapshot' },
    { ref: other, sandboxId: sandbox('b'), kind: 'snapshot' },
  ]
  expect(await checkpointsOf(backend)).toEqual(expected)
  await backend.end({ ref: REF, incarnation: null }, CALL)
  expect(await instancesOf(backend)).toEqual([listed('b')])
  expect(await checkpointsOf(backend)).toEqual(expected)
  await (backend.snapshots as Snapshots).discard(taken, CALL)
  expect(await checkpointsOf(backend)).toEqual(expected.filter(({ ref }) => ref !== taken))
})

test('instances that are half made, half removed, copied by hand or unreadable are left out, and hide no other', async () => {
  const bench = await setup()
  for (const letter of 'abc') await create(bench, letter)
  const at = (name: string) => path.join(instancesIn(bench), name)
  const elsewhere = `deadbeef.${SANDBOX}.${FIRST_LIFE}`
  for (const name of [`.making-${REF}~1`, `.ending-${REF}~1`, `${REF}.copy`, elsewhere, 'unnamed']) {
    await mkdir(at(name))
    await cp(path.join(at(REF), 'instance.json'), path.join(at(name), 'instance.json'))
  }
  await mkdir(at(refOf('d')))
  await mkdir(path.join(at(refOf('e')), 'instance.json'), { recursive: true })
  await writeFile(at(refOf('f')), 'a file')
  await symlink('/nowhere', at(refOf('g')))
  const labels = path.join(at(refOf('b')), 'instance.json')
  const whole = await readFile(labels)
  try {
    for (const text of ['', '{"fleet":', 'null', '{}', `{"fleet":"test","mark":"${refOf('b')}.0"}`]) {
      await writeFile(labels, text)
      expect(await instancesOf(bench.backend)).toEqual([...'ac'].map(listed))
    }
  } finally {
    await writeFile(labels, whole) // without them, nobody could end it
  }
  expect(await instancesOf(bench.backend)).toEqual([...'abc'].map(listed))
})

test('checkpoints that are half made, half removed, copied by hand or unreadable are left out, and hide no other', async () => {
  const bench = await setup()
  await create(bench, 'a')
  const refs: string[] = []
  for (const key of ['op_1', 'op_2', 'op_3', 'op_4']) refs.push(await snapshot(bench, REF, key))
  const [first, second, third, last] = refs as [string, string, string, string]
  const at = (name: string, file = '') => path.join(checkpointsIn(bench), name, file)
  const elsewhere = first.replace(HOME_ID, 'deadbeef')
  for (const name of [`.making-${first}~1`, `.discarding-${first}~1`, `${first}.copy`, elsewhere, 'unnamed']) {
    await cp(at(first), at(name), { recursive: true })
  }
  expect((await checkpointsOf(bench.backend)).map(({ ref }) => ref)).toEqual(refs)
  const manifest = await readFile(at(second, 'manifest.json'), 'utf8')
  await writeFile(at(second, 'manifest.json'), manifest.replace(SANDBOX, sandbox('z')))
  await rm(at(third, 'manifest.json'))
  await writeFile(at(`${third}.file`), 'a file')
  expect((await checkpointsOf(bench.backend)).map(({ ref }) => ref)).toEqual([first, last])
})

test('who cannot open files any more does not take all that is there for unreadable', async () => {
  const bench = await setup()
  await create(bench, 'a')
  const module = (file: string) => JSON.stringify(path.resolve('src/backends/local', file))
  // Between the look at the folder and the look at the first of its names.
  const program = `
    const { openSync } = await import('node:fs')
    const { makeHome } = await import(${module('home.ts')})
    const { listInstances } = await import(${module('lists.ts')})
    const fill = () => { for (;;) try { openSync('/dev/null') } catch { return } }
    const home = await makeHome(${JSON.stringify(bench.folder)}, 'test')
    const listing = listInstances(home, undefined, { signal: { throwIfAborted: fill } })
    process.stdout.write(await listing.then(JSON.stringify, ({ code }) => code))`
  const args = ['-c', 'ulimit -n 64; exec "$@"', 'sh', process.execPath, '--input-type=module', '-e', program]
  expect((await promisify(execFile)('/bin/sh', args)).stdout).toBe('EMFILE')
})

test('a list that is given up ends', async () => {
  const bench = await setup()
  await create(bench, 'a')
  await snapshot(bench, REF)
  for (const list of [bench.backend.lists.instances, checkpointList(bench.backend)]) {
    const giving = new AbortController()
    const listing = list(undefined, giving)
    giving.abort(new Error('enough'))
    await expect(listing).rejects.toThrow('enough')
  }
})

test('a place is called after its folder, and holds all but what another one has named', async () => {
  const bench = await setup()
  const { ref } = await create(bench, 'a')
  const place = await bench.backend.lists.place(CALL)
  expect(place?.name).toBe(HOME_ID)
  for (const held of [ref, await snapshot(bench, REF), 'sbx_x.op_y', 'made-by-hand', '../elsewhere', '']) {
    expect(place?.holds(held), held).toBe(true)
  }

  const other = await (await setup({ homeId: 'deadbeef' })).backend.lists.place(CALL)
  expect(other?.name).toBe('deadbeef')
  expect(other?.holds(ref)).toBe(false)
  expect(place?.holds(ref.replace(HOME_ID, 'deadbeef'))).toBe(false)
  const sameFolder = openLocalBackend({ folder: bench.folder, fleet: 'test' })
  expect((await sameFolder.lists.place(CALL))?.name).toBe(HOME_ID)
})

test('what killed workers have left half made or half removed is gone after a list, unless somebody is at work on it', async () => {
  const bench = await setup()
  await create(bench, 'a')
  const taken = await snapshot(bench, REF)
  const left = [
    path.join(instancesIn(bench), `.making-${refOf('b')}~1`),
    path.join(instancesIn(bench), `.ending-${REF}~1`), // and made anew since then
    path.join(checkpointsIn(bench), `.making-${REF}.op_2~1`),
    path.join(checkpointsIn(bench), `.discarding-${refOf('c')}.op_3~1`),
  ]
  const labels = path.join(instancesIn(bench), REF, 'instance.json')
  for (const folder of left) {
    await mkdir(folder)
    await cp(labels, path.join(folder, 'instance.json'))
  }
  const busy = path.join(instancesIn(bench), `.ending-${refOf('d')}~1`)
  await mkdir(busy)
  const lock = await lockFile(path.join(bench.folder, 'test', 'locks', refOf('d')))
  expect(await instancesOf(bench.backend)).toEqual([listed('a')])
  expect(await checkpointsOf(bench.backend)).toMatchObject([{ ref: taken }])
  expect([...left, busy].filter((folder) => existsSync(folder))).toEqual([busy])
  await bench.running(REF)
  await (lock as FileLock).release()
  await instancesOf(bench.backend)
  expect(existsSync(busy)).toBe(false)
})
