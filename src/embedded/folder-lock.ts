import { randomUUID } from 'node:crypto'
import { link, mkdir, readFile, rm, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'

const BREAKING_MS_MAX = 10_000

/** Who holds a folder. A pid alone is not enough: after a restart, another program may have got the same one. */
type Holder = { pid: number; born: string }

/** Held until it is released, or until the process that holds it is gone. */
export type FolderLock = { release(): Promise<void> }

/** Takes the folder for this process, or returns the pid of the living process that has it. */
export async function lockFolder(folder: string): Promise<FolderLock | number> {
  await mkdir(folder, { recursive: true })
  const file = path.join(folder, 'lock')
  const me: Holder = { pid: process.pid, born: (await birthOf(process.pid)) ?? '' }
  for (;;) {
    if (await createWhole(file, JSON.stringify(me))) return { release: () => rm(file, { force: true }) }
    const holder = await readHolder(file)
    if (holder && (await isHeld(holder))) return holder.pid
    await removeStale(file)
  }
}

/** Creates the file with its content in one step, or returns false when it exists: nobody ever reads half a lock. */
async function createWhole(file: string, content: string): Promise<boolean> {
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

/**
 * When this process began, as the system counts it; undefined when there is no such process. Where the system does not
 * tell (it does on Linux), every process has the same birth, and the pid has to do.
 */
async function birthOf(pid: number): Promise<string | undefined> {
  if (!isAlive(pid)) return undefined
  if (process.platform !== 'linux') return ''
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(() => '')
  // The second field is the program's name in parentheses, and may contain anything; the third is the state, the
  // twenty-second the start. A zombie has ended: only its parent, which may never ask, does not know yet.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' ? undefined : fields[19]
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}

async function readHolder(file: string): Promise<Holder | undefined> {
  try {
    const { pid, born } = JSON.parse(await readFile(file, 'utf8')) as Partial<Holder>
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
    if (!(holder && (await isHeld(holder)))) await rm(file, { force: true })
  } finally {
    await rm(breaking, { force: true })
  }
}

async function isHeld({ pid, born }: Holder): Promise<boolean> {
  return (await birthOf(pid)) === born
}
