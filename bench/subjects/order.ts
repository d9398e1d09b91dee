import type { Kind } from '../../src/sandbox/judge.ts'

/** Where a subject of a measurement works: the same for what is measured and for what it is measured against. */
export type Place = { databaseUrl: string; redisUrl: string | undefined; fleet: string }

/** What a process is started with. */
export type Order = Place & {
  /** Where it writes what it spent its time with, if anybody wants to know. */
  profileFolder?: string | undefined
}

/**
 * So many of something, how long they took together, how much of a core this process used for them, and for how long cores had
 * nothing to do. What is left of the machine's time is that of the stores, and of whoever else is there.
 */
export type Measured = { count: number; ms: number; cpuMs: number; idleMs: number }

/** How far a process has come with what it shares with others, and when that began and ended so far. */
export type Progress = { count: number; beganAt: number | undefined; endedAt: number | undefined }

/** The kinds of operation that are measured: each leaves a sandbox as the other needs it. */
export const MEASURED_KINDS = ['pause', 'resume'] as const satisfies Kind[]
export type MeasuredKind = (typeof MEASURED_KINDS)[number]
