/**
 * Everything that goes wrong, and how often at the most: of the times at which it could. `group` is what a table says of it.
 */
export const FAULTS = {
  crash: { most: 0.006, group: 'crashes' },
  freeze: { most: 0.001, group: 'freezes' },
  stop: { most: 0.0006, group: 'restarts' },
  database_slow: { most: 0.004, group: 'database' },
  database_lost: { most: 0.004, group: 'database' },
  database_unheard: { most: 0.004, group: 'database' },
  queue_slow: { most: 0.01, group: 'queue' },
  queue_away: { most: 0.04, group: 'queue' },
  ring_swallowed: { most: 0.06, group: 'queue' },
  ring_doubled: { most: 0.06, group: 'queue' },
  delivery_late: { most: 0.04, group: 'queue' },
  queue_flushed: { most: 0.3, group: 'queue' },
  call_slow: { most: 0.02, group: 'provider' },
  call_refused: { most: 0.06, group: 'provider' },
  call_unanswered: { most: 0.05, group: 'provider' },
  call_hangs: { most: 0.03, group: 'provider' },
  call_broken: { most: 0.01, group: 'provider' },
  outage: { most: 0.1, group: 'provider' },
  list_short: { most: 0.2, group: 'provider' },
  pause_keeps_nothing: { most: 0.15, group: 'provider' },
  upload_fails: { most: 0.15, group: 'provider' },
  pause_fails: { most: 0.15, group: 'provider' },
  hook_fails: { most: 0.25, group: 'provider' },
  stream_cut: { most: 0.2, group: 'streams' },
  stream_ends_early: { most: 0.15, group: 'streams' },
  stream_hangs: { most: 0.05, group: 'streams' },
  agent_killed: { most: 0.3, group: 'sandboxes' },
  instance_vanishes: { most: 0.06, group: 'sandboxes' },
  instance_lost: { most: 0.06, group: 'sandboxes' },
  instance_restarts: { most: 0.08, group: 'sandboxes' },
  instance_falls_asleep: { most: 0.08, group: 'sandboxes' },
  checkpoint_forgotten: { most: 0.06, group: 'sandboxes' },
  checkpoint_rots: { most: 0.06, group: 'sandboxes' },
} as const satisfies Record<string, { most: number; group: string }>

export type FaultName = keyof typeof FAULTS

/** What went wrong in a run, counted. */
export class Faults {
  readonly counts: Partial<Record<FaultName, number>> = {}

  count(fault: FaultName): void {
    this.counts[fault] = (this.counts[fault] ?? 0) + 1
  }

  /** It was to happen, and there was nothing that it could have happened to. */
  uncount(fault: FaultName): void {
    this.counts[fault] = (this.counts[fault] ?? 0) - 1
  }
}
