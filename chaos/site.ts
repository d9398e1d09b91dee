import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { chmod, mkdir, mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { findSteadyPort } from '../proof/ports.ts'
import { type Restartable, startRestartablePostgres, startRestartableRedis } from '../proof/restartable.ts'
import { Events } from '../src/events.ts'
import { migrateAll } from '../src/fleet/migrate.ts'
import { KeptProcess } from './kept-process.ts'
import type { ChaosOptions } from './options.ts'
import { Provider } from './provider.ts'

export const FLEET = 'chaos'
const STOP_MS = 40_000
const ADMINISTER_MS = 30_000

/** Everything of a fleet, each part a process of its own on this machine. */
export type Site = {
  /** All that it has on disk, but for its logs. Every process of it is known by this name. */
  root: string
  logs: string
  databaseUrl: string
  postgres: Restartable
  redis: Restartable | undefined
  provider: Provider
  webs: { url: string; process: KeptProcess }[]
  workers: KeptProcess[]
  token: string
  /** For what is done to Postgres from outside; a new connection every time. */
  administer<Row extends pg.QueryResultRow>(statement: string, values?: unknown[]): Promise<Row[]>
  /** Those that did not stop by themselves, or failed, by name. */
  stopWorkers(): Promise<string[]>
  /** Nothing of it is left, except its logs where they are to be kept. */
  close(options: { keepLogs: boolean }): Promise<void>
}

export async function openSite({ workers, webs, queues, seed }: ChaosOptions): Promise<Site> {
  const root = await mkdtemp(path.join(os.tmpdir(), 'sandman-chaos-'))
  await chmod(root, 0o711) // lets the user that Postgres is lent to pass through
  const logs = await mkdtemp(path.join(os.tmpdir(), `sandman-chaos-logs-${seed}-`))
  const janitor = hireJanitor(root, logs)
  try {
    return await furnish({ root, logs, janitor, workers, webs, hasRedis: queues === 'redis' })
  } catch (error) {
    await dismiss(janitor)
    throw error
  }
}

type Foundations = Pick<ChaosOptions, 'workers' | 'webs'> & {
  root: string
  logs: string
  janitor: ChildProcess
  hasRedis: boolean
}

async function furnish({ root, logs, janitor, hasRedis, ...counts }: Foundations): Promise<Site> {
  const tmp = path.join(root, 'tmp')
  await mkdir(tmp)
  const base = environment(tmp)
  const [postgres, redis, provider] = await Promise.all([
    startRestartablePostgres(root),
    hasRedis ? startRestartableRedis() : undefined,
    Provider.start(base),
  ])
  const databaseUrl = postgres.url
  await migrateAll({ databaseUrl, redisUrl: undefined }, new Events())
  const token = 'a-secret-of-a-careful-client'
  const { url, apiKey } = provider.place
  const env = {
    ...base,
    DATABASE_URL: databaseUrl,
    ...(redis && { REDIS_URL: redis.url }),
    SANDMAN_FLEET: FLEET,
    SANDMAN_DATA: path.join(root, 'data'),
    SANDMAN_BACKENDS: 'local,e2b',
    E2B_API_KEY: apiKey,
    E2B_API_URL: url,
    E2B_SANDBOX_URL: url,
  }
  const keep = (name: string, command: string, more: Record<string, string> = {}) =>
    new KeptProcess({ name, args: [command], env: { ...env, ...more }, logFile: path.join(logs, `${name}.log`) })
  const tokens = { SANDMAN_TOKENS: `clients:operate:${token}`, SANDMAN_HOST: '127.0.0.1' }
  const webs = await Promise.all(
    Array.from({ length: counts.webs }, async (_, nth) => {
      const port = await findSteadyPort()
      const process = keep(`web-${nth + 1}`, 'web', { ...tokens, PORT: String(port) })
      return { url: `http://127.0.0.1:${port}`, process }
    }),
  )
  const workers = Array.from({ length: counts.workers }, (_, nth) => keep(`worker-${nth + 1}`, 'worker'))
  await Promise.all([...webs.map(({ process }) => process.ready), ...workers.map(({ ready }) => ready)])

  const stopAll = async (processes: KeptProcess[]) => {
    const codes = await Promise.all(processes.map((one) => one.stop(STOP_MS)))
    return processes.flatMap(({ name }, nth) => (codes[nth] === 0 ? [] : [`${name} stopped with ${codes[nth]}`]))
  }
  return {
    root,
    logs,
    databaseUrl,
    postgres,
    redis,
    provider,
    webs,
    workers,
    token,
    administer: (statement, values) => administer(databaseUrl, statement, values),
    stopWorkers: () => stopAll(workers),
    async close({ keepLogs }) {
      for (const one of [...workers, ...webs.map(({ process }) => process)]) one.abandon()
      if (keepLogs) janitor.send('keep the logs')
      await Promise.all([postgres.stop(), redis?.stop()])
      await dismiss(janitor)
    },
  }
}

/** Nothing of the shell that runs it, except where programs are. All children know the run's folder, and are found by it. */
function environment(tmp: string): Record<string, string> {
  const { PATH = '', HOME = '' } = process.env
  const compiled = path.resolve(import.meta.dirname, '../node_modules/.cache/sandman-test')
  return { PATH, HOME, TMPDIR: tmp, NODE_COMPILE_CACHE: compiled }
}

async function administer<Row extends pg.QueryResultRow>(
  databaseUrl: string,
  statement: string,
  values: unknown[] = [],
): Promise<Row[]> {
  const client = new pg.Client({ connectionString: databaseUrl, connectionTimeoutMillis: ADMINISTER_MS })
  client.on('error', () => {})
  await client.connect()
  try {
    return (await client.query<Row>(statement, values)).rows
  } finally {
    await client.end().catch(() => {})
  }
}

function hireJanitor(root: string, logs: string): ChildProcess {
  const janitor = fork(path.join(import.meta.dirname, 'janitor.ts'), [root, logs], {
    detached: true,
    execArgv: [],
    stdio: ['ignore', 'ignore', 'inherit', 'ipc'],
  })
  janitor.unref()
  janitor.channel?.unref()
  return janitor
}

async function dismiss(janitor: ChildProcess): Promise<void> {
  if (janitor.exitCode !== null || janitor.signalCode !== null) return
  janitor.ref()
  const gone = once(janitor, 'exit')
  janitor.disconnect()
  await gone
}
