import { constants } from 'node:os'
import type { Events } from '../events.ts'

export type Running = {
  stop(): Promise<void>
  /** Resolves when a part of it has ended by itself, with a sentence that says which. */
  broken?: Promise<string>
}

/**
 * Ctrl-C reaches a process twice when npm runs it: from the terminal and, a moment later, from npm. The same signal again
 * within this time is the same press of the key.
 */
export const SAME_PRESS_MS = 500

/**
 * Starts something, waits for SIGTERM or SIGINT, stops it, and returns; with a sentence when it had broken by itself. A
 * signal that comes during the start aborts it, and what then fails has failed because of it. A second signal exits at
 * once. A child of `sandman dev` is supervised: it leaves Ctrl-C to its parent, which stops its children in order, and
 * stops when that parent is gone.
 */
export async function runUntilSignal(
  start: (signal: AbortSignal) => Promise<Running>,
  { events, supervised }: { events: Events; supervised: boolean },
): Promise<string | undefined> {
  const signalled = listenForSignals(events, supervised)
  const failure = await start(signalled).then(
    async (running) => {
      const broken = await Promise.race([aborted(signalled), ...(running.broken ? [running.broken] : [])])
      await running.stop()
      return broken
    },
    (error: unknown) => {
      if (!signalled.aborted) throw error
    },
  )
  events.emit('process.stopped')
  return failure ?? undefined
}

/** Aborted by the first signal. */
function listenForSignals(events: Events, supervised: boolean): AbortSignal {
  const controller = new AbortController()
  let first: { signal: NodeJS.Signals; atMs: number } | undefined
  const onSignal = (signal: NodeJS.Signals) => {
    if (supervised && signal === 'SIGINT') return
    if (!first) {
      first = { signal, atMs: performance.now() }
      events.emit('process.stopping', { signal })
      controller.abort()
    } else if (signal !== first.signal || performance.now() - first.atMs > SAME_PRESS_MS) {
      process.exit(128 + constants.signals[signal])
    }
  }
  process.on('SIGTERM', onSignal)
  process.on('SIGINT', onSignal)
  if (supervised) {
    // The parent may be gone before anybody listens for that.
    if (!process.connected) onSignal('SIGTERM')
    process.once('disconnect', () => onSignal('SIGTERM'))
  }
  return controller.signal
}

function aborted(signal: AbortSignal): Promise<undefined> {
  if (signal.aborted) return Promise.resolve(undefined)
  return new Promise((resolve) => signal.addEventListener('abort', () => resolve(undefined)))
}

/** Nothing that is thrown may pass unseen: it is logged with its cause, and the process ends as failed. */
export function exitOnCrash(events: Events): void {
  const crash = (error: unknown) => {
    events.emit('process.crashed', { error })
    process.exit(1)
  }
  process.on('uncaughtException', crash)
  process.on('unhandledRejection', crash)
}
