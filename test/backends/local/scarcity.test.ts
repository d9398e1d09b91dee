import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test, vi } from 'vitest'
import type { Pausing } from '../../../src/backends/backend.ts'
import { freeze } from '../../../src/backends/local/freeze.ts'
import { findMembers } from '../../../src/backends/local/processes.ts'
import { CALL, COUNTING, setup, sh } from './setup.ts'

/** What the system says when it has no room left, to whoever writes a file of this name. */
let refused: string | undefined
vi.mock('../../../src/backends/local/files.ts', async (original) => {
  const files = await original<typeof import('../../../src/backends/local/files.ts')>()
  const writeJson: typeof files.writeJson = async (file, value) => {
    if (path.basename(file) === refused) throw Object.assign(new Error('no space left'), { code: 'ENOSPC' })
    await files.writeJson(file, value)
  }
  return { ...files, writeJson }
})

test('a sandbox that an earlier attempt left frozen goes on when the next cannot even begin', async () => {
  const bench = await setup()
  const target = await bench.create(COUNTING)
  await freeze(await bench.instance(), CALL)
  refused = 'life.json'
  const suspending = (bench.backend.pausing as Pausing).suspend(target, { key: 'op_pause' }, CALL)
  await expect(suspending).rejects.toMatchObject({ type: 'quota_exceeded' })
  refused = undefined
  const before = (await bench.output()).length
  await expect.poll(async () => (await bench.output()).length).toBeGreaterThan(before)
})

/** In a process that may have so many files open; `fill` leaves it none. */
async function runWithFewFiles(filesMax: number, script: string): Promise<unknown> {
  const modules = ['backends/local/processes.ts', 'backends/local/instance.ts', 'process-identity.ts', 'file-lock.ts']
  const imports = modules.map((file) => `...await import(${JSON.stringify(path.resolve('src', file))})`)
  const program = `
    const { openSync } = await import('node:fs')
    const sandman = { ${imports.join(', ')} }
    const fill = () => { for (;;) try { openSync('/dev/null') } catch { return } }
    const told = await (async () => { ${script} })().catch((error) => error.code ?? String(error))
    process.stdout.write(JSON.stringify(told))`
  const args = ['-c', `ulimit -n ${filesMax}; exec "$@"`, 'sh', process.execPath, '--input-type=module', '-e', program]
  return JSON.parse((await promisify(execFile)('/bin/sh', args)).stdout) as unknown
}

test('who cannot open files any more does not take a living process for a dead one', async () => {
  const me = 'await sandman.identityOf(process.pid)'
  expect(await runWithFewFiles(64, `const me = ${me}; fill(); return await sandman.isStillThere(me)`)).toBe('EMFILE')
  const canLiveOn = `const me = ${me}; fill(); return await sandman.canLiveOn(me)`
  expect(await runWithFewFiles(64, canLiveOn)).toBe('EMFILE')
  expect(await runWithFewFiles(64, 'fill(); return await sandman.bootId()')).toBe('EMFILE')
})

test('who cannot open files any more does not take a lock for one that nobody has', async () => {
  const bench = await setup()
  await bench.create()
  const lock = JSON.stringify((await bench.instance()).supervisorLock)
  expect(await runWithFewFiles(64, `fill(); return (await sandman.readHolder(${lock})) ?? 'nobody'`)).toBe('EMFILE')
})

test('all processes of a sandbox are found by who can open few files at once', async () => {
  const bench = await setup({ cgroups: false })
  await bench.create(sh('for i in $(seq 150); do sleep 1000 & done; wait'))
  const instance = await bench.instance()
  await expect.poll(async () => (await findMembers(instance)).length, { timeout: 20_000 }).toBe(151)
  const find = `(await sandman.findMembers(${JSON.stringify(instance)})).length`
  expect(await runWithFewFiles(64, `return ${find}`)).toBe(151)
  expect(await runWithFewFiles(64, `fill(); return ${find}`)).toBe('EMFILE')
})
