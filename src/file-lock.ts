import { randomUUID } from 'node:crypto'
import { link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { identityOf, isStillThere, type ProcessIdentity } from './process-identity.ts'

const BREAKING_MS_MAX = 10_000

/** Held until it is released, or until the process that holds it is gone. */
export type FileLock = { release(): Promise<void> }

/** Takes the folder for this process, or returns the pid of the living process that has it. */
export async function lockFolder(folder: string): Promise<FileLock | number> {
  await mkdir(folder, { recursive: true })
  return lockFile(path.join(folder, 'lock'))
}

/** Takes the lock that this file is, or returns the pid of the living process that has it: that may be this one. */
export async function lockFile(file: string): Promise<FileLock | number> {
  const me = await identityOf(process.pid)
  for (;;) {
    if (await createWhole(file, JSON.stringify(me))) return { release: () => rm(file, { force: true }) }
    const holder = await readHolder(file)
    if (holder && (await isStillThere(holder))) return holder.pid
    await removeStale(file)
  }
}

/** Creates the file with its content in one step, or returns false when it exists: nobody ever reads half a lock. */
export async function createWhole(file: string, content: string): Promise<boolean> {
  const draft = `${file}.${randomUUID()}`
  await writeFile(draft, content, { mode: 0o600 })
  try {
    await link(draft, file)
    return true
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error
    return false
  } finally {
    await rm(draft, { force: true })
  }
}

/** Whoever has taken it last, which may be gone by now; undefined when nobody has. */
export async function readHolder(file: string): Promise<ProcessIdentity | undefined> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return ''
    throw error // it may well be somebody's
  })
  try {
    const { pid, born } = JSON.parse(text) as Partial<ProcessIdentity>
    return typeof pid === 'number' && typeof born === 'string' ? { pid, born } : undefined
  } catch {
    return undefined
  }
}

/**
 * Removing a lock that is no longer the one that was found stale would take it from its new owner. So whoever removes one
 * holds a lock for that, and looks again under it.
 */
async function removeStale(file: string): Promise<void> {
  const breaking = `${file}.breaking`
  if (!(await createWhole(breaking, ''))) {
    const { mtimeMs } = await stat(breaking).catch(() => ({ mtimeMs: Date.now() }))
    // It takes milliseconds; one that has been there for long was left by a process that died in the middle of it.
    if (Date.now() - mtimeMs > BREAKING_MS_MAX) await rm(breaking, { force: true })
    await sleep(10)
    return
  }
  try {
    const holder = await readHolder(file)
    if (!(holder && (await isStillThere(holder)))) await rm(file, { force: true })
  } finally {
    await rm(breaking, { force: true })
  }
}
