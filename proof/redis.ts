import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { findFreePort, ServiceFailed, startService } from '../src/embedded/service.ts'
import { findOrInstall, findProgram } from './debian.ts'

export type RedisServer = { url: string; port: number; pid: number; stop(): Promise<void> }

const FOLDER_PREFIX = 'sandman-redis-'

export const HOW_TO_GET_REDIS = 'Set REDIS_URL, or install redis-server or valkey-server so that it is on the path.'

const READY_TEXT = 'Ready to accept connections'

/** Keeps nothing on disk, unless it is told to. */
export function startRedisServer(command: string, ...args: string[]): Promise<RedisServer> {
  return startOnFreePort(command, READY_TEXT, async (port, folder) => [...argsOf(port, folder), ...args])
}

/** The same on a port that somebody has chosen, and may be told that it is taken. */
export async function startRedisOn(command: string, port: number): Promise<RedisServer> {
  const folder = await mkdtemp(path.join(os.tmpdir(), FOLDER_PREFIX))
  return start({ command, args: argsOf(port, folder), readyText: READY_TEXT }, port, folder).catch(async (error) => {
    await rm(folder, { recursive: true, force: true })
    throw error
  })
}

function argsOf(port: number, folder: string): string[] {
  return ['--port', String(port), '--bind', '127.0.0.1', '--save', '', '--dir', folder]
}

export async function startOnFreePort(
  command: string,
  readyText: string,
  argsFor: (port: number, folder: string) => Promise<string[]>,
): Promise<RedisServer> {
  const folder = await mkdtemp(path.join(os.tmpdir(), FOLDER_PREFIX))
  for (let tries = 1; ; tries++) {
    const port = await findFreePort()
    try {
      return await start({ command, args: await argsFor(port, folder), readyText }, port, folder)
    } catch (error) {
      if (error instanceof ServiceFailed && error.output.includes('Address already in use') && tries < 5) continue
      await rm(folder, { recursive: true, force: true })
      throw error
    }
  }
}

type Started = { command: string; args: string[]; readyText: string }

async function start(what: Started, port: number, folder: string): Promise<RedisServer> {
  const service = await startService({
    ...what,
    cwd: folder,
    env: { PATH: '/usr/bin:/bin' },
    uid: undefined,
    gid: undefined,
    stopSignal: 'SIGTERM',
    logFile: undefined,
    removeAfter: [folder],
  })
  return { url: `redis://127.0.0.1:${port}`, port, pid: service.pid, stop: () => service.stop() }
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
