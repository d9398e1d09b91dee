import { execFile } from 'node:child_process'
import { chmod, copyFile, mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { httpApiPage } from '../../../printed/http-api.ts'
import { createWorld } from '../../support/world.ts'
import { serveHttp } from './setup.ts'

const run = promisify(execFile)
const root = path.resolve(import.meta.dirname, '../../..')

test('docs/http-api.md is what the tables say', async () => {
  await expect(httpApiPage()).toMatchFileSnapshot('../../../docs/http-api.md')
})

test('the examples of docs/http-api.md run as they stand', async ({ onTestFinished }) => {
  const world = await createWorld('postgres')
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-curl-'))
  const server = await serveHttp(world.fleet)
  onTestFinished(async () => {
    await server.stop()
    await Promise.all([world.end(), rm(folder, { recursive: true, force: true })])
  })
  await world.startWorker()

  const { PATH = '' } = process.env
  const hasCurl = await run('curl', ['--version']).then(
    () => true,
    () => false,
  )
  if (!hasCurl) {
    await copyFile(path.join(root, 'test/support/curl.mjs'), path.join(folder, 'curl'))
    await chmod(path.join(folder, 'curl'), 0o755)
  }
  const script = /<!-- example -->\n```sh\n([\s\S]+?)```/.exec(httpApiPage())?.[1] as string
  const { stdout } = await run('sh', ['-eu', '-c', script], {
    cwd: folder,
    env: {
      API: `${server.url}/v1`,
      PATH: hasCurl ? PATH : `${folder}:${path.dirname(process.execPath)}:${PATH}`,
    },
  })
  expect(stdout).toContain('"state":"suspended"')
  expect(stdout).toContain('data: {"from":0,"to":13,"text":"good morning\\n"}')
  expect(stdout).toMatch(/event: end\nid: end\ndata: .*"status":"succeeded","reason":"completed","exit_code":0/)
  expect(stdout).toMatch(/"answer":"sbx_\w+ has been running since/)
  expect(stdout).toMatch(/"state":"gone","gone_reason":"destroyed"/)
  const { items } = await world.fleet.list()
  expect(items).toMatchObject([{ state: 'gone', metadata: { user: 'u1' }, ttl: { idleMs: 900_000 } }])
  await world.expectInvariants()
})
