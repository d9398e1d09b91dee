const LOOK_AGAIN_MS = [50, 1_000] as const

/** Before what is on its way, and of which nobody tells, is looked at once more: soon at first, and then less and less. */
export function lookAgainMs(looks: number): number {
  const [firstMs, mostMs] = LOOK_AGAIN_MS
  return Math.min(firstMs * 2 ** Math.min(looks, 10), mostMs)
}

/** How often a change is tried again that was refused because of another one: its controller writes to it, too. */
export const CHANGES_MAX = 20
