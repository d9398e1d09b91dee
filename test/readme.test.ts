import { spawn } from 'node:child_process'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect, test } from 'vitest'
import { SandmanProcess } from './support/sandman.ts'
import { createStoreHome } from './support/stores.ts'

const root = path.resolve(import.meta.dirname, '..')

test('the README’s example runs as it stands, on a worker as it comes', async ({ onTestFinished }) => {
  const home = await createStoreHome('postgres')
  const data = await mkdtemp(path.join(os.tmpdir(), 'sandman-readme-'))
  // Inside of the project, so that it finds the package by its name as an app does.
  const script = path.join(root, `.readme-example-${process.pid}.ts`)
  onTestFinished(async () => {
    await Promise.all([home.drop(), rm(data, { recursive: true, force: true }), rm(script, { force: true })])
  })
  const env = { DATABASE_URL: home.databaseUrl }
  const worker = new SandmanProcess(['worker'], { env: { ...env, SANDMAN_DATA: data } })
  await worker.logged('process.started')

  const readme = await readFile(path.join(root, 'README.md'), 'utf8')
  await writeFile(script, /<!-- example -->\n```ts\n([\s\S]+?)```/.exec(readme)?.[1] ?? '')
  const app = spawn(process.execPath, [script], { env: { ...env, PATH: process.env.PATH } })
  let printed = ''
  for (const stream of [app.stdout, app.stderr]) stream.on('data', (text) => (printed += text))
  const code = await new Promise((resolve) => app.once('close', resolve))
  expect(printed).toBe('resume succeeded\nhello\nsucceeded: completed, exit code 0\n')
  expect(code).toBe(0)
  expect(await worker.stop()).toMatchObject({ code: 0 })
})
