/** Where a command prints to: a terminal, or something that reads it. */
export type Out = {
  /** Resolves when it can take more. */
  write(data: string | Uint8Array): Promise<void>
  isTerminal: boolean
  hasColours: boolean
  /** How wide it is, in characters. Without a terminal, there is no end. */
  columns(): number
  rows(): number
}

/** All that a command has of the world, so that a test can give it another one. */
export type Io = {
  out: Out
  err: Out
  /** Asks the person at the terminal. Undefined when there is nobody who could answer. */
  question: ((text: string, signal: AbortSignal) => Promise<string>) | undefined
  /** The settings, with those of a file `.env`. */
  environment(): Record<string, string | undefined>
  /** From now on the first Ctrl-C aborts this, and a second one ends the process at once. */
  interrupts(): AbortSignal
}

/** The words of https://no-color.org and https://force-color.org; of both, the second wins, as in Node. */
export function wantsColours(isTerminal: boolean, env: Record<string, string | undefined>): boolean {
  const { FORCE_COLOR: force, NO_COLOR: no, TERM: terminal } = env
  if (force !== undefined) return force !== '0' && force !== 'false'
  return isTerminal && !no && terminal !== 'dumb'
}
