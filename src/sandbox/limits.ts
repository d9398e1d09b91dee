/** How long a sandbox may idle, live and sleep: its own limits, or its fleet's for what it says nothing about. */
export type Limits = {
  idleMs?: number | undefined
  hardMs?: number | undefined
  retentionMs?: number | undefined
  /** What the idle limit does where a backend cannot pause. Without it, nothing. */
  ifUnsupported?: 'kill' | undefined
}

/** What is done with a sandbox when a limit is reached. In the order in which a tick sees to them: what ends for good comes first. */
export const LIMITS = {
  hard: {
    means: 'It has lived for as long as it may, whatever it does and whoever used it.',
    does: 'destroy',
    countsFrom: 'its creation',
  },
  retention: {
    means: 'It has slept for as long as it may.',
    does: 'destroy',
    countsFrom: 'the moment it was suspended; a resume that fails does not move it',
  },
  idle: {
    means: 'Nothing was done with it for as long as it may idle, and nothing runs in it.',
    does: 'pause',
    countsFrom: 'its waking, the end of its last execution, or its last touch',
  },
} as const satisfies Record<string, { means: string; does: 'destroy' | 'pause'; countsFrom: string }>

export type LimitName = keyof typeof LIMITS
export const LIMIT_NAMES = Object.keys(LIMITS) as LimitName[]
