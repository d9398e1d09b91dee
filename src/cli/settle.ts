import { parseDurationMs } from '../duration.ts'
import type { Answer, ExecutionAnswer, Fleet } from '../fleet/fleet.ts'
import { WAIT_MS_MAX } from '../fleet/requests.ts'

/** How long somebody at a terminal waits who has not said how long. */
const WAIT_MS = 60_000
/** How often a line that is being watched is looked at anew. */
const PROGRESS_MS = 1_000

export type Waiting = { wait: string | undefined; 'no-wait': boolean }

export function waitMsOf({ wait, 'no-wait': noWait }: Waiting): number {
  return noWait ? 0 : ((wait === undefined ? undefined : parseDurationMs(wait)) ?? WAIT_MS)
}

type Bounds = { waitMs: number; signal: AbortSignal }

/** The operation once it has settled, or as it is when the time is over or somebody has had enough. */
export function untilSettled(
  fleet: Fleet,
  accepted: Answer,
  { onLook, ...bounds }: Bounds & { onLook?: ((answer: Answer) => Promise<void>) | undefined },
): Promise<Answer> {
  return until({
    ...bounds,
    first: accepted,
    isOver: ({ operation }) => operation.settledAt !== null,
    look: (asked) => fleet.operation(accepted.operation.id, asked),
    sliceMs: onLook ? PROGRESS_MS : WAIT_MS_MAX,
    onLook,
  })
}

export function untilEnded(fleet: Fleet, accepted: ExecutionAnswer, bounds: Bounds): Promise<ExecutionAnswer> {
  return until({
    ...bounds,
    first: accepted,
    isOver: ({ execution }) => execution.endedAt !== null,
    look: (asked) => fleet.execution(accepted.execution.id, asked),
    sliceMs: WAIT_MS_MAX,
  })
}

async function until<T>({
  first,
  isOver,
  look,
  sliceMs,
  waitMs,
  signal,
  onLook,
}: Bounds & {
  first: T
  isOver: (latest: T) => boolean
  look: (asked: { wait: number; signal: AbortSignal }) => Promise<T>
  sliceMs: number
  onLook?: ((latest: T) => Promise<void>) | undefined
}): Promise<T> {
  const untilMs = performance.now() + waitMs
  let latest = first
  while (!isOver(latest) && !signal.aborted) {
    const leftMs = Math.round(untilMs - performance.now())
    if (leftMs <= 0) break
    await onLook?.(latest)
    try {
      latest = await look({ wait: Math.min(sliceMs, leftMs), signal })
    } catch (error) {
      if (!signal.aborted) throw error
    }
  }
  return latest
}
