import { execFile } from 'node:child_process'
import { cp, mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import net from 'node:net'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { findFreePort } from '../src/embedded/service.ts'
import { sandman } from './cli/setup.ts'
import { createDatabase, type TestDatabase } from './support/database.ts'
import { startPrivateRedis } from './support/redis.ts'
import { SandmanProcess } from './support/sandman.ts'

const execute = promisify(execFile)

let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-main-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

async function run(args: string[], env: Record<string, string | undefined> = {}) {
  const process = new SandmanProcess(args, { cwd: folder, env })
  return { ...(await process.exited), output: process.output }
}

describe('the command line', () => {
  test('ends as its exit code says, with everything printed', async () => {
    expect(await run(['--version'])).toMatchObject({ code: 0, output: expect.stringMatching(/^\d+\.\d+\.\d+\n$/) })
    const { code, output } = await run(['web', '--fast'])
    expect(code).toBe(2)
    expect(output).toMatch(/^sandman: web has no option "--fast"/)
    expect(output).not.toContain('    at ')
  })

  test('lists every problem of the environment before it starts anything', async () => {
    const { code, output } = await run(['worker', '--queues', 'nope'], {
      PORT: 'x',
      SANDMAN_GRACE: 'soon',
      DATABASE_URL: 'postgres://127.0.0.1:1/x',
    })
    expect(code).toBe(1)
    expect(output).toContain('sandman: The environment has 3 problems:')
    for (const name of ['PORT', 'SANDMAN_GRACE', 'SANDMAN_QUEUES']) expect(output).toContain(`  ${name}: `)
  })

  test('says what to do when there is no database', async () => {
    const message = /^sandman: There is no DATABASE_URL.*npm start/
    expect(await run(['worker'])).toMatchObject({ code: 1, output: expect.stringMatching(message) })
    for (const argv of [['ls'], ['why', 'sbx_1'], ['doctor']])
      expect(await sandman(argv, { env: { SANDMAN_DATA: folder } })).toMatchObject({ code: 1 })
    expect((await sandman(['ls'], { env: { SANDMAN_DATA: folder } })).err).toMatch(message)
  })

  test('repeats no key of a provider, wherever it turns up', async () => {
    const keys = { E2B_API_KEY: 'e2b_0123456789', AGENTUITY_SDK_KEY: 'sdk_9876543210' }
    for (const key of Object.values(keys)) {
      const env = { ...keys, DATABASE_URL: 'postgres://nobody@127.0.0.1:1/x' }
      const { out, err } = await sandman(['why', key], { env })
      expect(err).toContain('[redacted]')
      expect(out + err).not.toContain(key)
    }
  })

  test('says what to do when the database does not answer, without its password', async () => {
    const { code, output } = await run(['worker'], { DATABASE_URL: 'postgres://u:swordfish@127.0.0.1:1/x' })
    expect(code).toBe(1)
    expect(output).toMatch(
      /^sandman: Postgres at 127.0.0.1:1\/x cannot be used: connect ECONNREFUSED.*Check DATABASE_URL/,
    )
    expect(output).not.toContain('swordfish')
  })

  test('loads what a command needs: nothing for its help, and nothing of the web for a worker', async () => {
    const watch = path.join(folder, 'watch.mjs')
    await writeFile(
      watch,
      `import { registerHooks } from 'node:module'
      const packages = new Set()
      registerHooks({
        load(url, context, next) {
          const name = /\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//.exec(url)?.[1]
          if (name) packages.add(name)
          return next(url, context)
        },
      })
      process.on('exit', () => process.stdout.write('loaded ' + JSON.stringify([...packages]) + '\\n'))`,
    )
    const loads = async (...args: string[]) => {
      const env = { NODE_OPTIONS: `--import ${watch}`, DATABASE_URL: 'postgres://127.0.0.1:1/x' }
      const { output } = await run(args, env)
      return JSON.parse(/^loaded (.*)$/m.exec(output)?.[1] ?? 'null') as string[]
    }
    expect(await loads('pause', '--help')).toEqual([])
    expect(await loads('completion', 'bash')).toEqual([])
    const worker = await loads('worker')
    expect(worker).toEqual(expect.arrayContaining(['bullmq', 'pg']))
    expect(worker).not.toContain('hono')
    expect(worker).not.toContain('@bull-board/api')
  })
})

describe('bin/sandman.mjs', () => {
  const start = (launcher: string) => execute(process.execPath, [launcher, '--version'])

  test('starts the command line', async () => {
    expect(await start(path.resolve(import.meta.dirname, '../bin/sandman.mjs'))).toMatchObject({
      stdout: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
  })

  test('says in a sentence that a Node is too old', async () => {
    const launcher = path.join(folder, 'bin', 'sandman.mjs')
    await cp(path.resolve(import.meta.dirname, '../bin/sandman.mjs'), launcher)
    await mkdir(path.join(folder, 'node_modules'))
    const old = path.join(folder, 'old.mjs')
    await writeFile(old, `Object.defineProperty(process, 'versions', { value: { node: '22.17.1' } })`)
    await expect(execute(process.execPath, ['--import', old, launcher, 'ls'])).rejects.toMatchObject({
      code: 1,
      stderr: expect.stringMatching(
        /^sandman: it needs Node 22\.18 or newer, and this is v\S+: .*npm install node@24.*\n$/,
      ),
    })
  })

  test('says what to do in a clone where nothing is installed', async () => {
    const launcher = path.join(folder, 'bin', 'sandman.mjs')
    await cp(path.resolve(import.meta.dirname, '../bin/sandman.mjs'), launcher)
    await mkdir(path.join(folder, 'src'))
    await writeFile(path.join(folder, 'src', 'main.ts'), '')
    await expect(start(launcher)).rejects.toMatchObject({
      code: 1,
      stderr: 'sandman: its dependencies are not installed yet: run npm start (or npm install) first.\n',
    })
  })
})

describe('the processes of the Procfile', () => {
  let database: TestDatabase
  beforeEach(async () => {
    database = await createDatabase({ migrated: false })
  })
  afterEach(() => database.drop())

  test('release migrates; web and worker refuse to start before it, and start after it', async () => {
    const env = { DATABASE_URL: database.url, PORT: '0' }
    for (const role of ['web', 'worker']) {
      expect(await run([role], env)).toMatchObject({
        code: 1,
        output: expect.stringMatching(/The database lacks 0001_canaries.*sandman migrate/),
      })
    }
    expect(await run(['migrate'], env)).toMatchObject({ code: 0 })
    for (const role of ['web', 'worker']) {
      const process = new SandmanProcess([role], { cwd: folder, env })
      await process.logged('process.started')
      expect(await process.stop()).toEqual({ code: 0, signal: null })
      expect(process.lines.map((line) => line.event)).toEqual([
        'process.started',
        'process.stopping',
        'process.stopped',
      ])
    }
  })

  test('web lets a request in flight finish, takes no new ones, and exits with 0', async () => {
    await run(['migrate'], { DATABASE_URL: database.url })
    const port = await findFreePort()
    const web = new SandmanProcess(['web'], { cwd: folder, env: { DATABASE_URL: database.url, PORT: String(port) } })
    await web.logged('process.started')
    // A request of which only the first half has been sent is in flight for as long as we like.
    const client = net.connect(port, '127.0.0.1')
    client.write('GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n')
    await new Promise((resolve) => client.once('connect', resolve))
    await fetch(`http://127.0.0.1:${port}/healthz`)
    web.kill('SIGTERM')
    await web.logged('process.stopping')
    await expect
      .poll(() =>
        fetch(`http://127.0.0.1:${port}/healthz`).then(
          () => 'answers',
          () => 'refuses',
        ),
      )
      .toBe('refuses')
    client.write('Connection: close\r\n\r\n')
    const answer = await new Promise<string>((resolve) => client.once('data', (bytes) => resolve(bytes.toString())))
    expect(answer).toMatch(/^HTTP\/1.1 200/)
    expect(await web.exited).toEqual({ code: 0, signal: null })
  })

  test('an error that reaches nobody is logged with its cause, and ends the process as failed', async () => {
    const crash = path.join(folder, 'crash.mjs')
    await writeFile(crash, `process.on('SIGUSR2', () => { throw new Error('bug', { cause: new Error('its cause') }) })`)
    await run(['migrate'], { DATABASE_URL: database.url })
    const worker = new SandmanProcess(['worker'], {
      cwd: folder,
      env: { DATABASE_URL: database.url, NODE_OPTIONS: `--import ${crash}` },
    })
    await worker.logged('process.started')
    worker.kill('SIGUSR2')
    expect(await worker.exited).toEqual({ code: 1, signal: null })
    const line = await worker.logged('process.crashed')
    expect(line).toMatchObject({
      level: 'fatal',
      err: { message: 'bug: its cause', stack: expect.stringContaining('its cause') },
    })
  })

  test('a Redis that may evict jobs is warned about, once and as a line of the log', async () => {
    const redis = await startPrivateRedis('--maxmemory-policy', 'allkeys-lru')
    try {
      await run(['migrate'], { DATABASE_URL: database.url })
      const env = { DATABASE_URL: database.url, REDIS_URL: redis.url }
      const worker = new SandmanProcess(['worker'], { cwd: folder, env })
      expect(await worker.logged('queue.may_evict')).toMatchObject({ level: 'warn', evictionPolicy: 'allkeys-lru' })
      await worker.stop()
      expect(worker.output.split('\n').filter((line) => line !== '' && !line.startsWith('{'))).toEqual([])
    } finally {
      await redis.stop()
    }
  })
})
