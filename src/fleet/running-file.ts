import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { Config } from '../config.ts'
import { SandmanError } from '../errors.ts'
import { identityOf, isStillThere, type ProcessIdentity } from '../process-identity.ts'
import type { RunningConfig } from './foundation.ts'

/**
 * What `sandman dev` leaves in the data folder while it runs, so that the other commands find its embedded database
 * without being told. Readable by its owner only: the URL has a password.
 */
type RunningFile = ProcessIdentity & { databaseUrl: string }

const location = (folder: string) => path.join(folder, 'running.json')

/** Of this process, which has the folder for itself. Whoever looks for it meets all of it, or nothing. */
export async function writeRunningFile(folder: string, databaseUrl: string): Promise<void> {
  const running: RunningFile = { ...(await identityOf(process.pid)), databaseUrl }
  await mkdir(folder, { recursive: true })
  const draft = `${location(folder)}.draft`
  await rm(draft, { force: true }) // of one that died here: a file that is there keeps who may read it
  await writeFile(draft, JSON.stringify(running), { mode: 0o600 })
  await rename(draft, location(folder))
}

export async function removeRunningFile(folder: string): Promise<void> {
  await rm(location(folder), { force: true })
}

/** Of the `sandman dev` that is running on this folder now. */
export async function findRunning(folder: string): Promise<RunningFile | undefined> {
  const { pid, born, databaseUrl } = await readFile(location(folder), 'utf8')
    .then((text) => JSON.parse(text) as Partial<RunningFile>)
    .catch((): Partial<RunningFile> => ({}))
  if (pid === undefined || born === undefined || databaseUrl === undefined) return undefined
  return (await isStillThere({ pid, born })) ? { pid, born, databaseUrl } : undefined
}

/** The configuration with a database in it: the one that was named, or else the one that `sandman dev` is running here. */
export async function findDatabase(config: Config): Promise<RunningConfig> {
  if (config.databaseUrl !== undefined) return { ...config, databaseUrl: config.databaseUrl }
  const running = await findRunning(config.dataFolder)
  if (running) return { ...config, databaseUrl: running.databaseUrl }
  throw new SandmanError(
    'config_invalid',
    `There is no DATABASE_URL, and no "sandman dev" is running on ${config.dataFolder}: set DATABASE_URL, or start one in another terminal (npm start in a clone, sandman dev elsewhere).`,
  )
}
