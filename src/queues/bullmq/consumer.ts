import { DelayedError, type Job, UnrecoverableError, WaitingError, type Worker } from 'bullmq'
import { withDeadline } from '../../deadline.ts'
import { describeError, isSandmanError } from '../../errors.ts'
import type { Events } from '../../events.ts'
import { HAND_OVER_MS } from '../../grace.ts'
import { withLogFields } from '../../logger.ts'
import { tagIds } from '../../tracing.ts'
import { parsePayload, type QueueDefinition } from '../define.ts'
import type { Outcome } from '../outcome.ts'
import type { QueueStore } from './store.ts'

type JobContext = {
  /** Aborted when the job must stop now: its worker is stopping, or has lost it to another. */
  signal: AbortSignal
  /** When the job was made. */
  madeAt: Date
}

export type Handler<Payload> = (payload: Payload, context: JobContext) => Promise<Outcome>

export type Consumer = {
  /** Takes no more jobs, lets those in flight finish within some time, and hands back the rest within some more. */
  stop(workMs: number, handBackMs?: number): Promise<void>
}

/** How often a worker looks for jobs that others left behind. With the lock, the bound on how long a crash delays a job. */
const STALLED_CHECK_MS = 5_000
/** A crash is not the job's fault, and the ledger bounds attempts; this only ends a job that kills every worker it meets. */
const STALLS_MAX = 100
const RETRY_FETCH_MS = 1_000
/** What no further attempt can change. */
const FINAL = ['payload_invalid', 'operation_not_found', 'execution_not_found'] as const

type ConsumeOptions<Payload> = {
  store: QueueStore
  queue: QueueDefinition<Payload>
  handler: Handler<Payload>
  /** Shown in Bull Board beside the jobs that this process works on. */
  workerName: string
  events: Events
}

export function consume<Payload>({ store, queue, handler, workerName, events }: ConsumeOptions<Payload>): Consumer {
  const interruption = new AbortController()

  // Three parameters: BullMQ hands out a signal only to a processor that takes it.
  async function work(job: Job, token: string | undefined, lost: AbortSignal | undefined): Promise<Outcome> {
    const attempt = job.attemptsMade + 1
    const { payload, unreadable } = read(job.data)
    // A payload is ids only, so it belongs on every line of its job; what cannot be read may be anything.
    const fields = { ...(payload as object | undefined), queue: queue.name, jobId: job.id, attempt }
    tagIds(payload ?? {})
    return withLogFields(fields, async () => {
      const startedAt = performance.now()
      const durationMs = () => Math.round(performance.now() - startedAt)
      try {
        if (unreadable) throw unreadable
        // A fetch that was under way when the worker was told to stop may still bring a job.
        interruption.signal.throwIfAborted()
        events.emit('job.started')
        const signal = lost ? AbortSignal.any([lost, interruption.signal]) : interruption.signal
        const madeAt = new Date(job.timestamp + (job.opts.delay ?? 0))
        const working = handler(payload as Payload, { signal, madeAt })
        const outcome = await unlessAborted(working, interruption.signal)
        if (outcome.kind === 'snoozed') {
          await job.moveToDelayed(Date.now() + outcome.delayMs, token)
          events.emit('job.snoozed', { queue: queue.name, why: outcome.why, delayMs: outcome.delayMs })
          throw new DelayedError()
        }
        // Of what comes again and again, nobody wants to read each time.
        const told =
          queue.everyMs !== undefined ? 'job.ticked' : outcome.kind === 'done' ? 'job.done' : 'job.superseded'
        events.emit(told, {
          queue: queue.name,
          durationMs: durationMs(),
          ...(outcome.kind === 'superseded' && { why: outcome.why }),
        })
        return outcome
      } catch (error) {
        if (error instanceof DelayedError) throw error
        const isFinal = FINAL.some((code) => isSandmanError(error, code))
        // Whatever went wrong after the interruption went wrong because of it.
        if (interruption.signal.aborted && !isFinal) return handBack(job, token)
        events.emit(isFinal || attempt >= queue.attemptsMax ? 'job.gave_up' : 'job.failed', {
          queue: queue.name,
          durationMs: durationMs(),
          error,
        })
        throw isFinal ? new UnrecoverableError(describeError(error)) : error
      }
    })
  }

  function read(data: unknown): { payload?: Payload; unreadable?: unknown } {
    try {
      return { payload: parsePayload(queue, data) }
    } catch (unreadable) {
      return { unreadable }
    }
  }

  /** Costs no attempt: nobody failed. */
  async function handBack(job: Job, token: string | undefined): Promise<never> {
    try {
      await job.moveToWait(token)
      events.emit('job.handed_back', { queue: queue.name })
    } catch (error) {
      store.report(error)
    }
    throw new WaitingError()
  }

  const worker = store.worker(queue.name, work, {
    name: workerName,
    concurrency: queue.concurrency,
    lockDuration: queue.lockMs,
    stalledInterval: queue.stalledCheckMs ?? STALLED_CHECK_MS,
    maxStalledCount: STALLS_MAX,
    runRetryDelay: RETRY_FETCH_MS,
  })
  worker.on('error', (error) => store.report(error))
  worker.on('stalled', (jobId) => events.emit('job.stalled', { queue: queue.name, jobId }))

  let stopping: Promise<void> | undefined
  return {
    stop(workMs, handBackMs = HAND_OVER_MS) {
      stopping ??= stopWorker(worker, interruption, { workMs, handBackMs })
      // After it has begun to stop, or it would fetch them itself.
      if (queue.handsOverAtOnce) interruption.abort()
      return stopping
    },
  }
}

async function stopWorker(
  worker: Worker,
  interruption: AbortController,
  { workMs, handBackMs }: { workMs: number; handBackMs: number },
): Promise<void> {
  const interrupt = setTimeout(() => interruption.abort(), workMs)
  // A store that cannot take a job back now gets it when the job's lock runs out.
  await withDeadline(workMs + handBackMs, 'the store', () => worker.close()).catch(() => {})
  clearTimeout(interrupt)
}

/** A handler that does not listen to its signal is not waited for: every job may be run again. */
async function unlessAborted<T>(work: Promise<T>, signal: AbortSignal): Promise<T> {
  work.catch(() => {})
  let onAbort = () => {}
  const aborted = new Promise<never>((_resolve, reject) => {
    onAbort = () => reject(signal.reason)
    signal.addEventListener('abort', onAbort)
  })
  try {
    return await Promise.race([work, aborted])
  } finally {
    signal.removeEventListener('abort', onAbort)
  }
}
