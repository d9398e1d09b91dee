import { readFile } from 'node:fs/promises'

/** Which process is meant. A pid alone is not enough: after a restart, another program may have got the same one. */
export type ProcessIdentity = { pid: number; born: string }

/**
 * When this process began, as the system counts it; undefined when there is no such process. Where the system does not
 * tell (it does on Linux), every process has the same birth, and the pid has to do.
 */
async function birthOf(pid: number): Promise<string | undefined> {
  if (!isAlive(pid)) return undefined
  if (process.platform !== 'linux') return ''
  const line = await readFile(`/proc/${pid}/stat`, 'utf8').catch(emptyIfGone)
  // The second field is the program's name in parentheses, and may contain anything; the third is the state, the
  // twenty-second the start. A zombie has ended: only its parent, which may never ask, does not know yet.
  const fields = line.slice(line.lastIndexOf(')') + 2).split(' ')
  return fields[0] === 'Z' ? undefined : fields[19]
}

/** For what is read below /proc. Any other failure, as of who has too many files open, says nothing about the process. */
export function emptyIfGone(error: NodeJS.ErrnoException): string {
  if (error.code === 'ENOENT' || error.code === 'ESRCH') return ''
  throw error
}

export async function identityOf(pid: number): Promise<ProcessIdentity> {
  return { pid, born: (await birthOf(pid)) ?? '' }
}

/** Whether that very process is still there. */
export async function isStillThere({ pid, born }: ProcessIdentity): Promise<boolean> {
  return (await birthOf(pid)) === born
}

export function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EPERM'
  }
}
