import { createHash } from 'node:crypto'
import { constants } from 'node:fs'
import { type FileHandle, lstat, open, readdir, readlink } from 'node:fs/promises'
import type { Call } from '../backend.ts'
import { joinBytes } from './files.ts'

/** A file, a folder or a symbolic link below a root, as it is written into a manifest. */
export type Entry = {
  path: string
  /** The path itself, when it is not text. */
  pathBase64?: string
  mode: number
  modifiedAtMs: number
} & ({ is: 'folder' } | { is: 'link'; target: string } | { is: 'file'; size: number; sha256: string })

/** What is there before it was read. */
type Found = { name: Buffer; mode: number; modifiedAtMs: number } & (
  | { is: 'folder' }
  | { is: 'link'; target: string }
  | { is: 'file'; size: number }
  /** A socket, a pipe, a device: nothing that could be kept. */
  | { is: 'other' }
)

const CHUNK_BYTES = 256 * 1024
/** What is said of something that was there a moment ago, and is gone or is something else now. */
const VANISHED = new Set(['ENOENT', 'ENOTDIR', 'ELOOP', 'ENXIO', 'EINVAL'])

/** Everything below a folder, folders before what is in them. */
export async function walk(root: Buffer, call: Call, below?: Buffer, found: Found[] = []): Promise<Found[]> {
  call.signal.throwIfAborted()
  const folder = below ? joinBytes(root, below) : root
  const names = await orVanished(readdir(folder, { encoding: 'buffer' }), below === undefined)
  for (const own of names ?? []) {
    const name = below ? joinBytes(below, own) : own
    const at = joinBytes(root, name)
    const stat = await orVanished(lstat(at))
    if (!stat) continue
    const common = { name, mode: stat.mode & 0o7777, modifiedAtMs: stat.mtimeMs }
    if (stat.isDirectory()) {
      found.push({ ...common, is: 'folder' })
      await walk(root, call, name, found)
    } else if (stat.isFile()) found.push({ ...common, is: 'file', size: stat.size })
    else if (stat.isSymbolicLink()) {
      const target = await orVanished(readlink(at, { encoding: 'buffer' }))
      if (target) found.push({ ...common, is: 'link', target: target.toString('latin1') })
    } else found.push({ ...common, is: 'other' })
  }
  return found
}

/** Undefined when it is gone by now, unless it has to be there. */
export async function orVanished<T>(looking: Promise<T>, hasToBeThere = false): Promise<T | undefined> {
  try {
    return await looking
  } catch (error) {
    if (hasToBeThere || !VANISHED.has((error as NodeJS.ErrnoException).code ?? '')) throw error
    return undefined
  }
}

/** Never waits for a pipe, and follows no link that has taken a file's place. Undefined when it is not a file any more. */
export async function openFile(file: Buffer): Promise<FileHandle | undefined> {
  const handle = await open(file, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  if ((await handle.stat()).isFile()) return handle
  await handle.close()
  return undefined
}

/** Reads so many bytes (one that grows is never read to its end), and hands every piece on. */
export async function hashFile(
  from: FileHandle,
  bytesMax: number,
  { signal }: Call,
  handOn?: (piece: Buffer) => Promise<unknown>,
): Promise<{ size: number; sha256: string }> {
  const hash = createHash('sha256')
  const buffer = Buffer.allocUnsafe(Math.max(1, Math.min(CHUNK_BYTES, bytesMax)))
  let size = 0
  while (size < bytesMax) {
    signal.throwIfAborted()
    const { bytesRead } = await from.read(buffer, 0, Math.min(buffer.length, bytesMax - size), size)
    if (bytesRead === 0) break
    const piece = buffer.subarray(0, bytesRead)
    hash.update(piece)
    await handOn?.(piece)
    size += bytesRead
  }
  return { size, sha256: hash.digest('hex') }
}

/** Copies what the handle reads into a new file, and says what it has copied. */
export async function copyFile(
  from: FileHandle,
  to: Buffer,
  { mode, modifiedAtMs, isDurable }: { mode: number; modifiedAtMs: number; isDurable: boolean },
  call: Call,
): Promise<{ size: number; sha256: string }> {
  const target = await open(to, 'wx', 0o600)
  try {
    const { size } = await from.stat()
    const copied = await hashFile(from, size, call, (piece) => target.writeFile(piece))
    await target.chmod(mode)
    await target.utimes(modifiedAtMs / 1_000, modifiedAtMs / 1_000)
    if (isDurable) await target.sync()
    return copied
  } finally {
    await target.close()
  }
}
