import { spawn } from 'node:child_process'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { freezeCgroup, makeCgroups, membersIn, removeCgroups, thawCgroup } from '../../../src/backends/local/cgroups.ts'
import { PARTS } from '../../../src/backends/shell/parts.ts'
import { CALL, COUNTING, isGone } from './setup.ts'

/** Where both versions are, the first is used. This is what it would be without. */
test('the second version of cgroups freezes and thaws, too', async ({ skip }) => {
  const mounts = await readFile('/proc/self/mountinfo', 'utf8').catch(() => '')
  const mount = mounts.match(/^\S+ \S+ \S+ \S+ (\S+) .* - cgroup2 /m)?.[1] ?? '/nowhere'
  const base = path.join(mount, `sandman-test-${process.pid}`)
  const isMade = await Promise.all(PARTS.map((part) => mkdir(path.join(base, part), { recursive: true }))).then(
    () => true,
    () => false,
  )
  skip(!isMade, 'nobody may make any here')
  const [program, ...args] = COUNTING
  const counter = spawn(program as string, args, { stdio: ['ignore', 'pipe', 'ignore'] })
  onTestFinished(async () => {
    counter.kill('SIGKILL')
    await removeCgroups({ freezer: base })
  })
  const pid = counter.pid as number
  await writeFile(path.join(base, 'agent', 'cgroup.procs'), String(pid))
  expect((await membersIn(base)).get(pid)).toBe('agent')
  const events = () => readFile(path.join(base, 'cgroup.events'), 'utf8')
  await freezeCgroup(base, CALL)
  expect(await events()).toContain('frozen 1')
  await thawCgroup(base)
  expect(await events()).toContain('frozen 0')
  counter.kill('SIGKILL')
  await expect.poll(() => isGone(pid)).toBe(true)
})

test('cgroups that are asked for again are the same, and can be removed twice', async () => {
  const name = `sandman-test-again-${process.pid}`
  const made = await makeCgroups(name, 64 << 20)
  onTestFinished(() => removeCgroups(made))
  expect(await makeCgroups(name, 64 << 20)).toEqual(made)
  for (const _time of ['once', 'twice']) await removeCgroups(made)
})
