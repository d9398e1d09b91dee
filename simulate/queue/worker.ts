import { DelayedError, type Processor, UnrecoverableError, WaitingError } from 'bullmq'
import type { SimulatedJob, SimulatedQueue, Taker } from './queue.ts'
import type { Command } from './store.ts'

/** What a processor may do with its job besides. */
type HandedJob = {
  id: string
  data: unknown
  attemptsMade: number
  timestamp: number
  opts: { delay: number }
  moveToDelayed(timestampMs: number): Promise<void>
  moveToWait(): Promise<void>
}

/** Works on one job as BullMQ's worker does: renews its lock, aborts what was lost, and tells the queue how it ended. */
export async function workOn(
  queue: SimulatedQueue,
  taker: Taker,
  { job, token, processor, command }: { job: SimulatedJob; token: string; processor: Processor; command: Command },
): Promise<void> {
  const lost = new AbortController()
  const renewing = setInterval(() => {
    command('renew', () => queue.renew(job, token, taker.lockMs)).then(
      (isHeld) => isHeld || lost.abort(new Error(`the lock of ${job.id} was lost`)),
      () => {}, // a store that is away cannot say
    )
  }, taker.lockMs / 2)
  const must = async (what: string, work: () => boolean): Promise<void> => {
    if (!(await command(what, work))) throw new Error(`Missing lock for job ${job.id}`)
  }
  const handed: HandedJob = {
    id: job.id,
    data: job.data,
    attemptsMade: job.attemptsMade,
    timestamp: job.madeAtMs,
    opts: { delay: job.delayMs },
    moveToDelayed: (untilMs) => must('move to delayed', () => queue.delay(job, token, untilMs)),
    moveToWait: () => must('hand back', () => queue.handBack(job, token)),
  }
  try {
    await processor(handed as never, token, lost.signal)
    // A store that is away now hears of it when the lock has run out: then the job is done again.
    await command('finish', () => queue.finish(job, token)).catch(() => {})
  } catch (error) {
    const isMoved = error instanceof DelayedError || error instanceof WaitingError
    if (!isMoved) {
      const isFinal = error instanceof UnrecoverableError
      await command('fail', () => queue.fail(job, token, isFinal)).catch(() => {})
    }
  } finally {
    clearInterval(renewing)
    taker.active--
  }
}
