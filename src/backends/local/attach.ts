import { type FileHandle, open } from 'node:fs/promises'
import type { Agent, Call, Piece } from '../backend.ts'
import { badCursor, positionOf } from '../byte-cursor.ts'
import { PIECE_BYTES_MAX } from '../pieces.ts'
import { agentFolder, outputFile } from './agent-files.ts'
import { lookAtAgent } from './agent-status.ts'
import { type Change, FolderWatch } from './folder-watch.ts'
import type { Home } from './home.ts'
import { type Instance, requireInstance } from './instance.ts'

/** Nobody tells that a supervisor has died, or that the sandbox sleeps. A thousand that look this often cost next to nothing. */
const LOOK_MS = 10_000

/**
 * The output from a byte of its file on, which the cursor names. It is read when somebody asks for the next piece, and no
 * earlier.
 */
export async function* attach(home: Home, agent: Agent, cursor: string | undefined, call: Call): AsyncGenerator<Piece> {
  const instance = await requireInstance(home, agent.ref)
  const { folder } = instance
  let standing = await standingOf(instance, agent)
  if (standing === 'not meant') return
  let at = positionOf(cursor)
  let lookedAt = Date.now()
  const output = await open(outputFile(folder, agent.key), 'r')
  const folderWatch = new FolderWatch(agentFolder(folder, agent.key), { lookAfterMs: LOOK_MS })
  try {
    const { size } = await output.stat()
    if (at > size) throw badCursor(`${at}, when there are only ${size} bytes`)
    for (;;) {
      call.signal.throwIfAborted()
      let change: Change = 'content'
      const bytes = await readPiece(output, at)
      if (bytes) {
        at += bytes.length
        yield { bytes, cursor: String(at) }
      } else if (standing === 'ended') {
        yield { bytes: new Uint8Array(), cursor: String(at), isLast: true }
        return
      } else if (standing === 'asleep') return
      else change = await folderWatch.next(call)
      // Not looked at any more once it has fallen silent for good: that was seen before the last read, so the rest is in the
      // file.
      if (standing !== 'speaking' || (change === 'content' && Date.now() - lookedAt < LOOK_MS)) continue
      standing = await standingOf(instance, agent).catch(async (error) => {
        await requireInstance(home, agent.ref) // that it has been ended says more than what is missing of it
        throw error
      })
      if (standing === 'not meant') return
      lookedAt = Date.now()
    }
  } finally {
    folderWatch.close()
    await output.close()
  }
}

async function standingOf(instance: Instance, agent: Agent): Promise<'speaking' | 'ended' | 'asleep' | 'not meant'> {
  const status = await lookAtAgent(instance, agent)
  if (status === 'unknown' || status.is === 'running') return 'speaking'
  if (status.is === 'asleep') return 'asleep'
  return status.is === 'terminated' ? 'ended' : 'not meant'
}

async function readPiece(output: FileHandle, at: number): Promise<Uint8Array | undefined> {
  const { size } = await output.stat()
  if (size <= at) return undefined
  const piece = Buffer.allocUnsafeSlow(Math.min(size - at, PIECE_BYTES_MAX))
  const { bytesRead } = await output.read(piece, 0, piece.length, at)
  return bytesRead === 0 ? undefined : piece.subarray(0, bytesRead)
}
