/** How much is measured. One place for all of it, so that what takes how long can be seen. */
export type Sizes = {
  /** A worker that has done some thousand is as fast as it will be: its code is compiled, its statements are planned. */
  operations: { sandboxes: number; warmUps: number; rounds: number }
  latency: { requests: number }
  enqueue: { requests: number }
  scaling: { sandboxes: number; rounds: number; workersMax: number }
  usualWay: { sandboxes: number; rounds: number }
  housekeeping: { rows: readonly number[]; due: number }
  /** Each of those that run at once writes so many records of so many bytes, one every so often. */
  streams: { concurrent: number; records: number; bytes: number; everyMs: number; fastMb: number }
  footprint: { starts: number; idleMs: number }
  kubernetesWatch: { pods: number; minutes: number }
}

export const SIZES = {
  full: {
    operations: { sandboxes: 2_000, warmUps: 2, rounds: 5 },
    latency: { requests: 1_000 },
    enqueue: { requests: 1_000 },
    scaling: { sandboxes: 2_000, rounds: 3, workersMax: 8 },
    usualWay: { sandboxes: 2_000, rounds: 5 },
    housekeeping: { rows: [10_000, 100_000, 1_000_000], due: 100 },
    streams: { concurrent: 1_000, records: 60, bytes: 512, everyMs: 500, fastMb: 256 },
    footprint: { starts: 5, idleMs: 5_000 },
    kubernetesWatch: { pods: 10_000, minutes: 2 },
  },
  /** All of it in about three minutes. */
  quick: {
    operations: { sandboxes: 250, warmUps: 2, rounds: 2 },
    latency: { requests: 150 },
    enqueue: { requests: 200 },
    scaling: { sandboxes: 100, rounds: 1, workersMax: 8 },
    usualWay: { sandboxes: 150, rounds: 2 },
    housekeeping: { rows: [10_000, 100_000], due: 100 },
    streams: { concurrent: 300, records: 10, bytes: 512, everyMs: 500, fastMb: 48 },
    footprint: { starts: 1, idleMs: 1_000 },
    kubernetesWatch: { pods: 1_000, minutes: 0.5 },
  },
  /** Shows that it works, and measures nothing. */
  tiny: {
    operations: { sandboxes: 8, warmUps: 1, rounds: 1 },
    latency: { requests: 4 },
    enqueue: { requests: 4 },
    scaling: { sandboxes: 8, rounds: 1, workersMax: 2 },
    usualWay: { sandboxes: 8, rounds: 1 },
    housekeeping: { rows: [500, 1_000], due: 5 },
    streams: { concurrent: 4, records: 20, bytes: 64, everyMs: 100, fastMb: 1 },
    footprint: { starts: 1, idleMs: 0 },
    kubernetesWatch: { pods: 20, minutes: 0.01 },
  },
} as const satisfies Record<string, Sizes>
