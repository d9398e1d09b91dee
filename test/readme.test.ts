import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { createInterface } from 'node:readline'
import { expect, test } from 'vitest'
import { createFleet } from '../src/index.ts'
import { SandmanProcess } from './support/sandman.ts'
import { createStoreHome } from './support/stores.ts'

const root = path.resolve(import.meta.dirname, '..')

test('the README’s web app runs as it stands, on a worker as it comes', async ({ onTestFinished }) => {
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
  const { PATH, NODE_COMPILE_CACHE } = process.env
  const app = spawn(process.execPath, [script], {
    env: { ...env, PATH, NODE_COMPILE_CACHE, PORT: '0' },
    stdio: ['ignore', 'pipe', 'inherit'],
  })
  onTestFinished(async () => {
    if (app.kill('SIGKILL')) await once(app, 'close')
  })
  const { value: url } = await createInterface(app.stdout)[Symbol.asyncIterator]().next()
  const ask = async (route: string) => {
    const answer = await fetch(`${url}${route}`, { method: 'POST' })
    return { status: answer.status, body: (await answer.json()) as Record<string, unknown> }
  }

  const made = await ask('/previews')
  expect(made).toMatchObject({ status: 201, body: { state: 'running' } })
  const id = made.body.id as string
  expect(await ask(`/previews/${id}/pause`)).toMatchObject({ status: 200, body: { id, state: 'suspended' } })
  expect(await ask(`/previews/${id}/resume`)).toMatchObject({ status: 200, body: { id, state: 'running' } })

  const fleet = createFleet({ databaseUrl: home.databaseUrl })
  onTestFinished(() => fleet.close())
  await fleet.destroy(id, { wait: '30s' })
  expect(await ask(`/previews/${id}/resume`)).toMatchObject({ status: 410, body: { offer: 'rebuild' } })
  expect(await worker.stop()).toMatchObject({ code: 0 })
})
