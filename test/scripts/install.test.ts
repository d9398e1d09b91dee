import { spawn } from 'node:child_process'
import { chmod, cp, mkdir, mkdtemp, readdir, rm, utimes, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'

/** The real script in a project without dependencies, so that npm has something to do but nothing to fetch. */
let project: string
beforeEach(async () => {
  project = await mkdtemp(path.join(os.tmpdir(), 'sandman-install-'))
  await mkdir(path.join(project, 'scripts'))
  await cp(path.resolve(import.meta.dirname, '../../scripts/install.mjs'), path.join(project, 'scripts/install.mjs'))
  await writeFile(path.join(project, 'package.json'), JSON.stringify({ name: 'nothing', version: '1.0.0' }))
  await writeLock('1.0.0')
})
afterEach(() => rm(project, { recursive: true, force: true }))

function writeLock(version: string): Promise<void> {
  const lock = {
    name: 'nothing',
    version,
    lockfileVersion: 3,
    requires: true,
    packages: { '': { name: 'nothing', version } },
  }
  return writeFile(path.join(project, 'package-lock.json'), JSON.stringify(lock))
}

type Install = Promise<{ code: number | null; output: string }> & {
  said(text: string): Promise<string>
  kill(signal: NodeJS.Signals): void
}

function install(
  node = process.execPath,
  user: { uid?: number; gid?: number } = {},
  env: Record<string, string> = {},
): Install {
  const child = spawn(node, [path.join(project, 'scripts/install.mjs')], {
    ...user,
    // A cache of its own, and no registry: it must not be needed.
    env: { PATH: process.env.PATH, npm_config_cache: path.join(project, 'cache'), npm_config_offline: 'true', ...env },
  })
  let output = ''
  const spoke = new EventTarget()
  for (const stream of [child.stdout, child.stderr]) {
    stream.on('data', (bytes) => {
      output += bytes
      spoke.dispatchEvent(new Event('spoke'))
    })
  }
  const ended = new Promise<{ code: number | null; output: string }>((resolve) =>
    child.on('close', (code) => resolve({ code, output })),
  )
  const said = async (text: string) => {
    while (!output.includes(text))
      await new Promise((resolve) => spoke.addEventListener('spoke', resolve, { once: true }))
    return text
  }
  return Object.assign(ended, { said, kill: (signal: NodeJS.Signals) => void child.kill(signal) })
}

test('installs once, says so, and is silent from then on', async () => {
  expect(await install()).toMatchObject({
    code: 0,
    output: expect.stringMatching(/Installing dependencies[\s\S]*Installed in \d+ s/),
  })
  expect(await install()).toEqual({ code: 0, output: '' })
})

test('installs again when the lock file has changed', async () => {
  await install()
  await writeLock('1.0.1')
  expect((await install()).output).toContain('Installed in')
})

test('installs once when several first commands are typed at the same time', async () => {
  const results = await Promise.all([install(), install(), install()])
  expect(results.map(({ code }) => code)).toEqual([0, 0, 0])
  expect(results.filter(({ output }) => output.includes('Installed in'))).toHaveLength(1)
  expect(await readdir(project)).not.toContain('.sandman-install-lock')
})

test('is not held up by an install that was killed', async () => {
  const lock = path.join(project, '.sandman-install-lock')
  const gone = spawn(process.execPath, ['--version'])
  await new Promise((resolve) => gone.once('exit', resolve))
  await writeFile(lock, String(gone.pid))
  expect((await install()).output).toContain('Installed in')
})

test('waits for an install that lives, and gives up on one that nobody has touched for long', async () => {
  const lock = path.join(project, '.sandman-install-lock')
  await writeFile(lock, String(process.pid))
  const waiting = install()
  const first = await Promise.race([waiting, waiting.said('waiting for it')])
  expect(first).toBe('waiting for it')
  const anHourAgo = new Date(Date.now() - 3_600_000)
  await utimes(lock, anHourAgo, anHourAgo)
  expect((await waiting).output).toContain('Installed in')
})

test('a failing npm fails it, with npm’s own message', async () => {
  await writeFile(
    path.join(project, 'package.json'),
    JSON.stringify({ name: 'nothing', version: '1.0.0', dependencies: { 'not-to-be-had': '1.0.0' } }),
  )
  const { code, output } = await install()
  expect(code).toBe(1)
  expect(output).toMatch(/not-to-be-had[\s\S]*Sandman could not install its dependencies/)
  expect(await readdir(project)).not.toContain('.sandman-install-lock')
})

test('a folder that cannot be written to gets one sentence', async () => {
  // Root may write anywhere, so it becomes somebody who may not, with a Node that this somebody can reach.
  const nobody = process.getuid?.() === 0 ? { uid: 65_534, gid: 65_534 } : {}
  const node = path.join(project, 'node')
  await cp(process.execPath, node)
  await chmod(project, 0o555)
  const result = await install(node, nobody)
  await chmod(project, 0o755)
  expect(result).toEqual({
    code: 1,
    output: `Sandman cannot install its dependencies: ${project} is not writable (EACCES). Clone it into a folder of your own.\n`,
  })
})

test('Ctrl-C ends it soon, also when npm does not care, and leaves the lock to nobody', async () => {
  // In the place of npm, by the way that npm itself tells where it is.
  const npm = path.join(project, 'npm.js')
  await writeFile(npm, "process.on('SIGINT', () => {}); console.log('busy'); setInterval(() => {}, 1000)")
  const installing = install(process.execPath, {}, { npm_execpath: npm })
  await installing.said('busy')
  installing.kill('SIGINT')
  await installing.said('Stopping the installation')
  installing.kill('SIGINT') // who asks twice does not wait
  expect(await installing).toMatchObject({ code: 130, output: expect.not.stringContaining('could not install') })
  expect(await readdir(project)).not.toContain('.sandman-install-lock')
})

test('what was stopped in the middle is installed anew: npm takes half a package for a whole one', async () => {
  const npm = path.join(project, 'npm.js')
  await writeFile(npm, "process.on('SIGINT', () => process.exit(1)); console.log('busy'); setInterval(() => {}, 1000)")
  const installing = install(process.execPath, {}, { npm_execpath: npm })
  await installing.said('busy')
  const half = path.join(project, 'node_modules', '.half') // npm leaves alone what it does not know
  await writeFile(half, '')
  installing.kill('SIGINT')
  await installing
  await install()
  expect(await readdir(path.dirname(half))).not.toContain('.half')

  await writeFile(half, '')
  await writeLock('1.0.1') // a whole one stays, and is only brought up to date
  await install()
  expect(await readdir(path.dirname(half))).toContain('.half')
})
