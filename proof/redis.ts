import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { findFreePort, ServiceFailed, startService } from '../src/embedded/service.ts'
import { findOrInstall, findProgram } from './debian.ts'

export type RedisServer = { url: string; port: number; pid: number; stop(): Promise<void> }

export const HOW_TO_GET_REDIS = 'Set REDIS_URL, or install redis-server or valkey-server so that it is on the path.'

/** Keeps nothing on disk, unless it is told to. */
export function startRedisServer(command: string, ...args: string[]): Promise<RedisServer> {
  return startOnFreePort(command, 'Ready to accept connections', async (port, folder) => {
    return ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder, ...args]
  })
}

export async function startOnFreePort(
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

/** The path of a Redis server; installed from Debian's packages when nothing else is there and we may. */
export async function findRedisServer(): Promise<string> {
  const found = await findOrInstall(lookForRedis, 'redis-server')
  if (found) return found
  throw new Error(`A Redis is needed. ${HOW_TO_GET_REDIS}`)
}

export function lookForRedis(): Promise<string | undefined> {
  return findProgram('redis-server', 'valkey-server')
}
