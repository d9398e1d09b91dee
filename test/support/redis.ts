import { execFile } from 'node:child_process'
import { access, constants, mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { promisify } from 'node:util'
import { inject } from 'vitest'
import { findFreePort, ServiceFailed, startService } from '../../src/embedded/service.ts'

const run = promisify(execFile)

export type RedisServer = { url: string; port: number; pid: number; stop(): Promise<void> }

/** A Redis that belongs to one test: it may be flushed, misconfigured, stopped. */
export function startPrivateRedis(...args: string[]): Promise<RedisServer> {
  return startRedisServer(privateCommand(), ...args)
}

export function startRedisServer(command: string, ...args: string[]): Promise<RedisServer> {
  return startOnFreePort(command, 'Ready to accept connections', async (port, folder) => {
    return ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...args]
  })
}

/** A sentinel that watches the Redis on `primaryPort`, by the name of `name`. */
export function startSentinel(name: string, primaryPort: number): Promise<RedisServer> {
  return startOnFreePort(privateCommand(), '+monitor master', async (port, folder) => {
    const config = path.join(folder, 'sentinel.conf')
    await writeFile(
      config,
      `port ${port}\nbind 127.0.0.1\ndir ${folder}\nsentinel monitor ${name} 127.0.0.1 ${primaryPort} 1\n`,
    )
    return [config, '--sentinel']
  })
}

function privateCommand(): string {
  const command = inject('redisServer')
  if (!command) throw new Error(`This test starts a Redis of its own. ${HOW_TO_GET_REDIS}`)
  return command
}

async function startOnFreePort(
  command: string,
  readyText: string,
  argsFor: (port: number, folder: string) => Promise<string[]>,
): Promise<RedisServer> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-redis-'))
  for (let tries = 1; ; tries++) {
    const port = await findFreePort()
    try {
      const service = await startService({
        command,
        args: await argsFor(port, folder),
        cwd: folder,
        env: { PATH: '/usr/bin:/bin' },
        uid: undefined,
        gid: undefined,
        readyText,
        stopSignal: 'SIGTERM',
        logFile: undefined,
        removeAfter: [folder],
      })
      return { url: `redis://127.0.0.1:${port}`, port, pid: service.pid, stop: () => service.stop() }
    } catch (error) {
      if (error instanceof ServiceFailed && error.output.includes('Address already in use') && tries < 5) continue
      await rm(folder, { recursive: true, force: true })
      throw error
    }
  }
}

const HOW_TO_GET_REDIS = 'Set REDIS_URL, or install redis-server or valkey-server so that it is on the path.'

/** The path of a Redis server; installed from Debian's packages when nothing else is there and we may. */
export async function findRedisServer(optional: boolean): Promise<string | undefined> {
  const found = await onPath()
  if (found || optional) return found
  const mayInstall = process.getuid?.() === 0 && (await isExecutable('/usr/bin/apt-get'))
  if (mayInstall) {
    process.stderr.write("Installing Debian's redis-server for the tests\n")
    await installRedis()
    const installed = await onPath()
    if (installed) return installed
  }
  throw new Error(`The tests need a Redis. ${HOW_TO_GET_REDIS}`)
}

async function onPath(): Promise<string | undefined> {
  for (const folder of [...(process.env.PATH ?? '').split(':'), '/usr/local/bin', '/usr/bin']) {
    for (const name of ['redis-server', 'valkey-server']) {
      if (await isExecutable(path.join(folder, name))) return path.join(folder, name)
    }
  }
  return undefined
}

/** Another run of the tests may be installing at this moment: apt then refuses, and the next try finds it there. */
async function installRedis(): Promise<void> {
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' } }
  for (let tries = 1; tries <= 10 && !(await onPath()); tries++) {
    await run('apt-get', ['update', '-q'], options).catch(() => undefined)
    const installing = run(
      'apt-get',
      ['install', '-qy', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', 'redis-server'],
      options,
    )
    await installing.catch(() => new Promise((resolve) => setTimeout(resolve, 3_000)))
  }
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}
