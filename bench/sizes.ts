/** How much is measured. One place for all of it, so that what takes how long can be seen. */
export type Sizes = {
  operations: { sandboxes: number; rounds: number }
}

export const SIZES = {
  full: { operations: { sandboxes: 2_000, rounds: 7 } },
  /** All of it within three minutes. */
  quick: { operations: { sandboxes: 600, rounds: 3 } },
  /** Shows that it works, and measures nothing. */
  tiny: { operations: { sandboxes: 8, rounds: 1 } },
} as const satisfies Record<string, Sizes>
