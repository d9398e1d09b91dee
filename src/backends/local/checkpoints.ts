import { createHash, randomUUID } from 'node:crypto'
import { chmod, lstat, mkdir, readFile, rename, symlink } from 'node:fs/promises'
import path from 'node:path'
import { forEach } from '../../each.ts'
import { BackendError, type Call, type CheckpointCondition } from '../backend.ts'
import { exists, isMissing, joinBytes, removeTree, syncFolder, writeDurably } from './files.ts'
import { checkpointRefOf, type Home, isOurs, leftoversOf, mustBeName } from './home.ts'
import type { Instance } from './instance.ts'
import { copyFile, type Entry, hashFile, openFile, orVanished, walk } from './tree.ts'

/** What a checkpoint says of itself. It lies beside its own checksum. */
type Manifest = {
  version: 1
  checkpointRef: string
  fleet: string
  sandboxId: string
  instanceRef: string
  takenBy: 'pause' | 'snapshot'
  name?: string | undefined
  takenAt: string
  sizeBytes: number
  entries: Entry[]
  /** What was there and could not be kept: sockets, pipes, devices, and what vanished while it was looked at. */
  skipped: string[]
}

type Why = Pick<Manifest, 'takenBy' | 'name'>

/** What is wrong with a checkpoint, as opposed to what went wrong while looking at it. */
class Broken extends Error {}

/** Copies the workspace. There is a checkpoint of this name only once all of it is there. */
export async function writeCheckpoint(home: Home, instance: Instance, key: string, why: Why, call: Call) {
  const checkpointRef = mustBeName(checkpointRefOf(instance.ref, key))
  await discardCheckpoint(home, checkpointRef)
  const draft = path.join(home.checkpoints, `.making-${checkpointRef}~${randomUUID()}`)
  try {
    const manifest = await copyWorkspace(instance, path.join(draft, 'workspace'), call)
    await writeManifest(draft, {
      version: 1,
      checkpointRef,
      fleet: home.fleet,
      sandboxId: instance.labels.sandboxId,
      instanceRef: instance.ref,
      ...why,
      takenAt: new Date().toISOString(),
      ...manifest,
    })
    call.signal.throwIfAborted()
    await rename(draft, path.join(home.checkpoints, checkpointRef))
    await syncFolder(home.checkpoints)
  } catch (error) {
    await removeTree(draft)
    throw error
  }
  return checkpointRef
}

async function copyWorkspace({ workspace }: Instance, target: string, call: Call) {
  const [from, to] = [Buffer.from(workspace), Buffer.from(target)]
  await mkdir(to, { recursive: true, mode: 0o700 })
  const entries: Entry[] = []
  const skipped: string[] = []
  const found = await walk(from, call)
  const folders = found.filter(({ is }) => is === 'folder').map(({ name }) => joinBytes(to, name))
  for (const folder of folders) await mkdir(folder, { mode: 0o700 })
  await forEach(found, async ({ name, mode, modifiedAtMs, ...what }) => {
    const common = { ...nameInManifest(name), mode, modifiedAtMs }
    if (what.is === 'folder') entries.push({ ...common, is: 'folder' })
    else if (what.is === 'link') entries.push({ ...common, ...what })
    else if (what.is === 'file') {
      const handle = await orVanished(openFile(joinBytes(from, name)))
      if (!handle) return void skipped.push(common.path)
      try {
        // The real mode stands in the manifest: one that cannot be read could not be verified, or removed.
        const how = { mode: 0o600, modifiedAtMs, isDurable: true }
        entries.push({ ...common, is: 'file', ...(await copyFile(handle, joinBytes(to, name), how, call)) })
      } finally {
        await handle.close()
      }
    } else skipped.push(common.path)
  })
  for (const folder of [...folders, to]) await syncFolder(folder)
  entries.sort((a, b) => Buffer.compare(nameOf(a), nameOf(b)))
  const sizeBytes = entries.reduce((sum, entry) => sum + (entry.is === 'file' ? entry.size : 0), 0)
  return { sizeBytes, entries, skipped: skipped.sort() }
}

export async function verifyCheckpoint(home: Home, ref: string, call: Call): Promise<CheckpointCondition> {
  try {
    const manifest = await readManifest(home, ref)
    if (!manifest) return { is: 'missing', why: `there is no checkpoint ${ref} on this machine` }
    const root = Buffer.from(path.join(home.checkpoints, ref, 'workspace'))
    await forEach(manifest.entries, async (entry) => {
      if (entry.is === 'file') await readWhole(root, entry, call)
      if (entry.is === 'folder' && !(await present(entry, lstat(joinBytes(root, nameOf(entry))))).isDirectory())
        throw new Broken(`${entry.path} is not a folder any more`)
    })
    return { is: 'ready', sizeBytes: manifest.sizeBytes }
  } catch (error) {
    if (error instanceof Broken) return { is: 'corrupt', why: `checkpoint ${ref} is damaged: ${error.message}` }
    throw error
  }
}

/** Fails as `checkpoint_missing` or `checkpoint_corrupt` unless it is whole. */
export async function requireCheckpoint(home: Home, ref: string, call: Call): Promise<void> {
  const condition = await verifyCheckpoint(home, ref, call)
  if (condition.is === 'missing' || condition.is === 'corrupt') {
    throw new BackendError(`checkpoint_${condition.is}`, `Cannot resume: ${condition.why}`)
  }
}

/** Makes a workspace as it was, file by file against the manifest. */
export async function restoreWorkspace(home: Home, ref: string, target: string, call: Call): Promise<void> {
  try {
    const manifest = await readManifest(home, ref)
    if (!manifest) throw new BackendError('checkpoint_missing', `There is no checkpoint ${ref} on this machine`)
    const [from, to] = [Buffer.from(path.join(home.checkpoints, ref, 'workspace')), Buffer.from(target)]
    const folders = manifest.entries.filter(({ is }) => is === 'folder')
    for (const folder of folders) await mkdir(joinBytes(to, nameOf(folder)), { mode: 0o700 })
    await forEach(manifest.entries, async (entry) => {
      const at = joinBytes(to, nameOf(entry))
      if (entry.is === 'link') await symlink(Buffer.from(entry.target, 'latin1'), at)
      if (entry.is === 'file') await readWhole(from, entry, call, at)
    })
    // Last, and from the inside out: into some of them nothing could be written afterwards.
    for (const folder of folders.reverse()) await chmod(joinBytes(to, nameOf(folder)), folder.mode)
  } catch (error) {
    if (!(error instanceof Broken)) throw error
    throw new BackendError('checkpoint_corrupt', `Checkpoint ${ref} is damaged: ${error.message}`)
  }
}

async function readWhole(root: Buffer, entry: Entry & { is: 'file' }, call: Call, copyTo?: Buffer): Promise<void> {
  const handle = await present(entry, openFile(joinBytes(root, nameOf(entry))))
  if (!handle) throw new Broken(`${entry.path} is not a file any more`)
  try {
    const read = copyTo
      ? await copyFile(handle, copyTo, { ...entry, isDurable: false }, call)
      : await hashFile(handle, entry.size + 1, call)
    if (read.sha256 !== entry.sha256) throw new Broken(`${entry.path} has another content than was written`)
  } finally {
    await handle.close()
  }
}

async function present<T>(entry: Entry, looking: Promise<T>): Promise<T> {
  const found = await orVanished(looking)
  if (found === undefined) throw new Broken(`${entry.path} is missing`)
  return found
}

export async function hasCheckpoint(home: Home, ref: string): Promise<boolean> {
  return isOurs(home, ref) && (await exists(path.join(home.checkpoints, ref)))
}

/** Gone in one step, and then removed, together with what others have left half made or half removed. */
export async function discardCheckpoint(home: Home, ref: string): Promise<void> {
  if (!isOurs(home, ref)) return
  if (await exists(path.join(home.checkpoints, ref))) {
    await rename(path.join(home.checkpoints, ref), path.join(home.checkpoints, `.discarding-${ref}~${randomUUID()}`))
    await syncFolder(home.checkpoints)
  }
  for (const prefix of ['.discarding-', '.making-']) {
    for (const left of await leftoversOf(home.checkpoints, `${prefix}${ref}`)) await removeTree(left)
  }
}

async function writeManifest(folder: string, manifest: Manifest): Promise<void> {
  const text = JSON.stringify(manifest, undefined, 1)
  await writeDurably(path.join(folder, 'manifest.json'), text)
  await writeDurably(path.join(folder, 'manifest.sha256'), sha256(text))
  await syncFolder(folder)
}

/** Undefined when there is no such checkpoint. */
export async function readManifest(home: Home, ref: string): Promise<Manifest | undefined> {
  if (!(await hasCheckpoint(home, ref))) return undefined
  const read = (file: string) =>
    readFile(path.join(home.checkpoints, ref, file), 'utf8').catch((error) => {
      throw isMissing(error) ? new Broken(`${file} is missing`) : error
    })
  const text = await read('manifest.json')
  if (sha256(text) !== (await read('manifest.sha256'))) throw new Broken('manifest.json is not what was written')
  return JSON.parse(text) as Manifest
}

function nameInManifest(name: Buffer): { path: string; pathBase64?: string } {
  const text = name.toString()
  return Buffer.from(text).equals(name) ? { path: text } : { path: text, pathBase64: name.toString('base64') }
}

function nameOf({ path: text, pathBase64 }: Entry): Buffer {
  return pathBase64 === undefined ? Buffer.from(text) : Buffer.from(pathBase64, 'base64')
}

function sha256(text: string): string {
  return createHash('sha256').update(text).digest('hex')
}
