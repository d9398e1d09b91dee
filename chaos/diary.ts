import type { Kind } from '../src/sandbox/judge.ts'

/** What a client asked for, with the key under which it asks until it is told something definite. */
export type Asked = {
  key: string
  kind: Kind | 'execute'
  /** Not known of one that is to be made. */
  sandboxId: string | undefined
  command?: readonly string[]
}

export type CameTo = { status: string; outcome: string | null; checkpointId: string | null }

/** One answer that named an operation, or an execution. */
export type Told = Asked & {
  status: number
  id: string
  sandboxId: string
  /** Of an operation that had settled by then: what it was said to have come to. */
  cameTo?: CameTo
  /** Through which web process, and when: the request was sent, and answered. */
  web: number
  sentAt: number
  answeredAt: number
}

/** It was said to be done, and has given a checkpoint that somebody may rely on. */
export function isPromise({ kind, cameTo }: Told): boolean {
  return (kind === 'snapshot' || kind === 'pause') && cameTo?.outcome === 'done'
}

/** All that clients remember: the other side of the ledger. */
export class Diary {
  readonly told: Told[] = []
  /** Requests by what they were answered with, those that were asked again included: a status, or `no_answer`. */
  readonly statuses = new Map<string, number>()
  /** Refused for good, without any operation: what is in the way is told by the problem's `error_type`. */
  readonly refusals = new Map<string, number>()
  /** Still asking when there was quiet for long enough: nobody has ever told them anything. */
  readonly unanswered: Asked[] = []

  /** What an answer of 2xx named, by its id: each once, however often it was told. */
  get accepted(): Map<string, Told> {
    return new Map(this.told.filter(({ status }) => status < 300).map((one) => [one.id, one]))
  }

  count(status: number | 'no_answer'): void {
    this.statuses.set(String(status), (this.statuses.get(String(status)) ?? 0) + 1)
  }

  refused(errorType: string): void {
    this.refusals.set(errorType, (this.refusals.get(errorType) ?? 0) + 1)
  }
}
