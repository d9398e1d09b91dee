import { mkdtemp, rm, writeFile } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { inject } from 'vitest'
import { findFreePort, ServiceFailed, startService } from '../../src/embedded/service.ts'
import { findOrInstall, findProgram } from './debian.ts'

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
  const look = () => findProgram('redis-server', 'valkey-server')
  const found = await (optional ? look() : findOrInstall(look, 'redis-server'))
  if (found || optional) return found
  throw new Error(`The tests need a Redis. ${HOW_TO_GET_REDIS}`)
}
