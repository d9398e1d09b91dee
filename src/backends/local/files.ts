import { randomUUID } from 'node:crypto'
import { chmod, lstat, open, readdir, readFile, rename, rm } from 'node:fs/promises'
import path from 'node:path'
import { BackendError } from '../backend.ts'

/** Undefined only when there is no such file. What is there and cannot be read says nothing about what it stands for. */
export async function readJson<T>(file: string): Promise<T | undefined> {
  let text: string
  try {
    text = await readFile(file, 'utf8')
  } catch (error) {
    if (isMissing(error)) return undefined
    throw error
  }
  try {
    return JSON.parse(text) as T
  } catch (cause) {
    throw new BackendError('sandbox_unreachable', `${file} is not readable as what it should be`, { cause })
  }
}

/** Whole or not at all, and still there after a loss of power. */
export async function writeJson(file: string, value: unknown): Promise<void> {
  const draft = `${file}.${randomUUID()}`
  try {
    await writeDurably(draft, JSON.stringify(value, undefined, 2))
    await rename(draft, file)
  } catch (error) {
    await rm(draft, { force: true })
    throw error
  }
  await syncFolder(path.dirname(file))
}

export async function writeDurably(file: string, text: string): Promise<void> {
  const handle = await open(file, 'wx', 0o600)
  try {
    await handle.writeFile(text)
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function syncFolder(folder: string | Buffer): Promise<void> {
  const handle = await open(folder, 'r')
  try {
    await handle.sync()
  } finally {
    await handle.close()
  }
}

export async function exists(file: string): Promise<boolean> {
  try {
    await lstat(file)
    return true
  } catch (error) {
    if (isMissing(error)) return false
    throw error
  }
}

/** Also what its owner may not write to: a folder without that permission refuses to be emptied, unless one is root. */
export async function removeTree(folder: string): Promise<void> {
  try {
    await rm(folder, { recursive: true, force: true })
  } catch (error) {
    if (!['EACCES', 'EPERM'].includes((error as NodeJS.ErrnoException).code ?? '')) throw error
    await openUp(Buffer.from(folder))
    await rm(folder, { recursive: true, force: true })
  }
}

/** The removal that was refused may still be at work on the rest of it. */
async function openUp(folder: Buffer): Promise<void> {
  try {
    await chmod(folder, 0o700)
    for (const entry of await readdir(folder, { withFileTypes: true, encoding: 'buffer' })) {
      if (entry.isDirectory()) await openUp(joinBytes(folder, entry.name))
    }
  } catch (error) {
    if (!isMissing(error)) throw error
  }
}

/** A file's name is bytes, and need not be text. */
export function joinBytes(folder: Buffer, name: Buffer): Buffer {
  return Buffer.concat([folder, Buffer.from('/'), name])
}

export function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT'
}
