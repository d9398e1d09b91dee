import type { Readable, Writable } from 'node:stream'
import { finished } from 'node:stream/promises'
import { signal } from '../../machine.ts'
import type { Inside } from './inside.ts'
import { Outlet } from './outlet.ts'
import { beModest, exitCodeOf, launch, MARK, throughShell } from './processes.ts'

export type ExecAsked = { command: string[]; stdin: boolean; tty: boolean }

export type ExecProcess = {
  stdin: Writable | undefined
  stdout: Readable
  stderr: Readable
  /** When it has ended and both outputs were read to their end, which nobody who inherited them holds up for longer than a moment. */
  ended: Promise<{ exitCode: number }>
  /** It, and not what it has started. */
  kill(): void
}

/** There is nothing to run it in, or it cannot be run. */
export class ExecFailed extends Error {
  override readonly name = 'ExecFailed'
}

/** Where there is no way back to whoever asked: the container was killed, for all that can be seen from outside. */
const KILLED = 137

/**
 * Starts a command beside the main process, in a session of its own. A program that is not there is what a shell says of it. A
 * terminal it never has: if one is asked for, both outputs are one, and that is all.
 */
export async function startExec(
  { command, stdin, tty }: ExecAsked,
  { mark, memoryBytesMax, cwd, env }: Inside & { mark: string; memoryBytesMax: number | undefined },
): Promise<ExecProcess & { cut(): void }> {
  if (command.length === 0) throw new ExecFailed('you must specify at least one command for the container')
  const [shell, ...args] = throughShell(command, memoryBytesMax, { isOneOutput: tty })
  const child = await launch(shell, args, {
    cwd,
    env: { ...env, [MARK]: mark },
    stdio: [stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
  }).catch((error: Error) => {
    throw new ExecFailed(`${JSON.stringify(command[0])} cannot be started: ${error.message}`, { cause: error })
  })
  const { pid } = child
  if (memoryBytesMax !== undefined) beModest(pid)
  child.stdin?.on('error', () => {}) // it has closed it, or ended
  const [stdout, stderr] = [new Outlet(child.stdout as Readable), new Outlet(child.stderr as Readable)]
  if (tty) stderr.resume()
  const exiting = Promise.withResolvers<number>()
  let hasExited = false
  child.once('exit', (code, killedBy) => {
    hasExited = true
    exiting.resolve(exitCodeOf(code, killedBy))
    for (const outlet of [stdout, stderr]) outlet.expectEnd()
  })
  // Who closes an output has read all that he wanted.
  const read = [stdout, stderr].map((outlet) => finished(outlet).catch(() => {}))
  return {
    stdin: child.stdin ?? undefined,
    stdout,
    stderr,
    ended: Promise.all([exiting.promise, ...read]).then(([exitCode]) => ({ exitCode })),
    kill: () => {
      if (!hasExited) signal(pid, 'SIGKILL')
    },
    // It stands still. If it ever goes on, it finds its outputs closed.
    cut: () => {
      exiting.resolve(KILLED)
      child.stdin?.destroy()
      for (const outlet of [stdout, stderr]) outlet.finish()
    },
  }
}
