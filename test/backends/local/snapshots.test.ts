import { spawnSync } from 'node:child_process'
import { lstat, readdir, readFile, readlink, rm, truncate, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, test } from 'vitest'
import type { Snapshots } from '../../../src/backends/backend.ts'
import { type Bench, CALL, COUNTING, HOME_ID, IDLING, REF, SANDBOX, setup } from './setup.ts'

const SECOND_LIFE = `op_${'2'.repeat(26)}`
const snapshotsOf = ({ backend }: Bench) => backend.snapshots as Snapshots
const take = async (bench: Bench, key = 'op_snap') =>
  (await snapshotsOf(bench).take(await bench.running(REF), { key, name: 'mine' }, CALL)).checkpointRef

test('a sandbox begins as a snapshot of another, with everything a folder can hold', async () => {
  const bench = await setup()
  const target = await bench.create(COUNTING)
  const script = `
    mkdir -p full/deep empty locked && printf 'a\\0b' > full/deep/binary && ln -s deep/binary full/link && ln -s /nowhere dead
    printf x > "$(printf 'not\\377text')" && printf y > 'ünïcode' && : > nothing
    printf z > script && chmod 755 script && printf w > locked/in && chmod 400 locked/in && chmod 555 locked
    mkfifo pipe`
  expect(await bench.backend.run(target, script, CALL)).toEqual({ exitCode: 0, output: '' })

  const checkpointRef = await take(bench)
  expect((await bench.backend.look(REF, CALL)).is).toBe('running')
  expect(await snapshotsOf(bench).verify(checkpointRef, CALL)).toEqual({ is: 'ready', sizeBytes: 7 })
  const manifest = path.join(bench.folder, 'test', 'checkpoints', checkpointRef, 'manifest.json')
  expect(JSON.parse(await readFile(manifest, 'utf8'))).toMatchObject({ name: 'mine', skipped: ['pipe'] })

  await bench.create(IDLING, { life: SECOND_LIFE, checkpointRef })
  const { workspace } = await bench.instance(`${HOME_ID}.${SANDBOX}.${SECOND_LIFE}`)
  const mode = async (file: string) => ((await lstat(path.join(workspace, file))).mode & 0o777).toString(8)
  expect(await readFile(path.join(workspace, 'full/link'), 'latin1')).toBe('a\0b')
  expect(await readlink(path.join(workspace, 'dead'))).toBe('/nowhere')
  expect(await Promise.all(['script', 'locked', 'locked/in'].map(mode))).toEqual(['755', '555', '400'])
  const names = (await readdir(workspace, { encoding: 'latin1' as 'utf8' })).sort()
  expect(names).toEqual(['dead', 'empty', 'full', 'locked', 'not\xfftext', 'nothing', 'script', 'Ã¼nÃ¯code'].sort())
  expect(
    spawnSync('diff', [
      '-r',
      '--no-dereference',
      '-x',
      'pipe',
      (await bench.instance()).workspace,
      workspace,
    ]).stdout.toString(),
  ).toBe('')
})

test('the same key is the same snapshot, also after the sandbox has changed or gone', async () => {
  const bench = await setup()
  const target = await bench.create(IDLING)
  const first = await take(bench)
  await bench.backend.run(target, 'echo more > file', CALL)
  expect(await take(bench)).toBe(first)
  expect(await snapshotsOf(bench).verify(first, CALL)).toEqual({ is: 'ready', sizeBytes: 0 })
  expect(await take(bench, 'op_later')).not.toBe(first)
  await bench.backend.end(target, CALL)
  const again = await snapshotsOf(bench).take(target, { key: 'op_snap', name: undefined }, CALL)
  expect(again).toEqual({ checkpointRef: first })
  const another = snapshotsOf(bench).take(target, { key: 'op_more', name: undefined }, CALL)
  await expect(another).rejects.toMatchObject({ type: 'sandbox_expired' })
})

test('a snapshot of a sandbox that writes all the time is whole in itself', async () => {
  const bench = await setup()
  const target = await bench.create(COUNTING)
  const busy =
    'i=0; while :; do i=$((i+1)); echo $i >> grows; echo $i > new.$i; rm -f new.$((i-5)); done >/dev/null 2>&1 &'
  await bench.backend.run(target, busy, CALL)
  for (const key of ['op_a', 'op_b', 'op_c']) {
    expect(await snapshotsOf(bench).verify(await take(bench, key), CALL)).toMatchObject({ is: 'ready' })
  }
})

test.each([
  ['a changed file', (at: string) => writeFile(path.join(at, 'workspace/file'), 'prec1ous'), 'corrupt', 'file'],
  ['a shortened file', (at: string) => truncate(path.join(at, 'workspace/file'), 3), 'corrupt', 'file'],
  ['a lengthened file', (at: string) => truncate(path.join(at, 'workspace/file'), 30), 'corrupt', 'file'],
  ['a removed file', (at: string) => rm(path.join(at, 'workspace/file')), 'corrupt', 'file'],
  ['a removed folder', (at: string) => rm(path.join(at, 'workspace/empty'), { recursive: true }), 'corrupt', 'empty'],
  ['a removed manifest', (at: string) => rm(path.join(at, 'manifest.json')), 'corrupt', 'manifest.json'],
  ['a changed manifest', changeManifest, 'corrupt', 'manifest.json'],
  ['nothing left', (at: string) => rm(at, { recursive: true }), 'missing', 'op_snap'],
] as const)('a checkpoint with %s is noticed, and no sandbox begins as it', async (_what, damage, is, named) => {
  const bench = await setup()
  const target = await bench.create(IDLING)
  await bench.backend.run(target, 'printf precious > file; mkdir empty', CALL)
  const checkpointRef = await take(bench)
  await damage(path.join(bench.folder, 'test', 'checkpoints', checkpointRef))
  expect(await snapshotsOf(bench).verify(checkpointRef, CALL)).toEqual({ is, why: expect.stringContaining(named) })
  if (named === 'empty') return // a folder is made again, with or without its copy
  const creating = bench.create(IDLING, { life: SECOND_LIFE, checkpointRef })
  await expect(creating).rejects.toMatchObject({ type: `checkpoint_${is}` })
  expect(await bench.backend.find(SANDBOX, CALL)).toHaveLength(1)
  expect(await readdir(path.join(bench.folder, 'test', 'instances'))).toEqual([REF])
})

test('a name from elsewhere is no checkpoint', async () => {
  const bench = await setup()
  for (const ref of ['../instances', '..', '', 'a/b', '.hidden']) {
    expect(await snapshotsOf(bench).verify(ref, CALL)).toMatchObject({ is: 'missing' })
    await snapshotsOf(bench).discard(ref, CALL)
  }
  const kept = ['cache', 'checkpoints', 'home', 'instances', 'locks']
  expect((await readdir(path.join(bench.folder, 'test'))).sort()).toEqual(kept)
})

async function changeManifest(at: string): Promise<void> {
  const text = await readFile(path.join(at, 'manifest.json'), 'utf8')
  await writeFile(path.join(at, 'manifest.json'), text.replace('"size": 8', '"size": 7'))
}
