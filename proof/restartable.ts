import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../src/embedded/postgres.ts'
import { findSteadyPort } from './ports.ts'
import { findRedisServer, type RedisServer, startRedisOn } from './redis.ts'

/** A server that can be ended in the middle of its work, and comes back at the same address. It ends with this process. */
export type Restartable = {
  readonly url: string
  /** Returns when it has ended. */
  kill(signal: NodeJS.Signals): Promise<void>
  /** Returns when it answers again. */
  start(): Promise<void>
  stop(): Promise<void>
}

/** What a killed server leaves behind (a port, shared memory) may be there for a moment longer than itself. */
const START_MS_MAX = 60_000
const START_AGAIN_MS = 100

/** As many as some dozen processes may have open, with those that were killed and are not missed yet. */
const CONNECTIONS_MAX = 400

/** With all that keeps what was committed: nothing is switched off for speed. Its folder is the caller's to remove. */
export async function startRestartablePostgres(folder: string): Promise<Restartable> {
  const port = await findSteadyPort()
  const start = () => patiently(() => startEmbeddedPostgres({ folder: path.join(folder, 'postgres'), port }))
  let running: EmbeddedPostgres = await start()
  const { url } = running
  const end = async (signal: NodeJS.Signals) => {
    signalTo(running.service.pid, signal)
    await running.stop()
  }
  await configure(url)
  await end('SIGINT')
  running = await start()
  return {
    url,
    kill: end,
    async start() {
      running = await start()
    },
    stop: () => running.stop(),
  }
}

async function configure(url: string): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query(`alter system set max_connections = ${CONNECTIONS_MAX}`)
  } finally {
    await client.end()
  }
}

/** It keeps nothing on disk, so whenever it ends, all that it knew is lost. */
export async function startRestartableRedis(): Promise<Restartable> {
  const command = await findRedisServer()
  const port = await findSteadyPort()
  const start = () => patiently(() => startRedisOn(command, port))
  let running: RedisServer = await start()
  return {
    url: running.url,
    async kill(signal) {
      signalTo(running.pid, signal)
      await running.stop()
    },
    async start() {
      running = await start()
    },
    stop: () => running.stop(),
  }
}

async function patiently<T>(start: () => Promise<T>): Promise<T> {
  for (const until = Date.now() + START_MS_MAX; ; ) {
    try {
      return await start()
    } catch (error) {
      if (Date.now() > until) throw error
      await sleep(START_AGAIN_MS)
    }
  }
}

/** One that has ended meanwhile needs no signal. */
function signalTo(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal)
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
  }
}
