import type { State } from '../sandbox/states.ts'

const CODES = { bold: [1, 22], dim: [2, 22], red: [31, 39], green: [32, 39], yellow: [33, 39], blue: [34, 39] } as const

export type Colour = keyof typeof CODES

/** The colour is beside the word, and never instead of it. */
export function paint(text: string, colour: Colour | undefined, hasColours: boolean): string {
  if (!colour || !hasColours || text === '') return text
  const [on, off] = CODES[colour]
  return `\x1b[${on}m${text}\x1b[${off}m`
}

export const STATE_COLOURS: Record<State, Colour> = {
  running: 'green',
  suspended: 'blue',
  gone: 'dim',
  provisioning: 'yellow',
  pausing: 'yellow',
  resuming: 'yellow',
  snapshotting: 'yellow',
  killing: 'yellow',
}

export const STATUS_COLOURS: Record<string, Colour> = {
  succeeded: 'green',
  failed: 'red',
  refused: 'red',
  cancelled: 'dim',
  active: 'yellow',
  running: 'yellow',
  waiting: 'dim',
  queued: 'dim',
}
