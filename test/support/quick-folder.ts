import { statfs } from 'node:fs/promises'
import os from 'node:os'

/** What the databases of a whole run may need at once, with much to spare: a copy is 10 MB, and the largest are some hundreds. */
const ROOM_BYTES_MIN = 4_000_000_000

/**
 * In memory, where there is room for it. Hundreds of databases are made and dropped in a run, each of them some hundreds of files, and
 * ext4 looks at every inode that was freed a moment ago before it finds one for the next file: that took a tenth of all the time.
 */
export async function quickFolder(): Promise<string> {
  const memory = await statfs('/dev/shm').catch(() => undefined)
  const room = memory ? memory.bavail * memory.bsize : 0
  return room >= ROOM_BYTES_MIN && os.freemem() >= ROOM_BYTES_MIN ? '/dev/shm' : os.tmpdir()
}
