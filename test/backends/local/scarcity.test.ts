import { execFile } from 'node:child_process'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { findMembers } from '../../../src/backends/local/processes.ts'
import { setup, sh } from './setup.ts'

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
