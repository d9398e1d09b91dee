/** How a job ended when it did not fail. Losing a race is ordinary, and is a value; a failure is thrown. */
export type Outcome =
  | { kind: 'done' }
  | { kind: 'superseded'; why: string }
  | { kind: 'snoozed'; why: string; delayMs: number }

export const done = (): Outcome => ({ kind: 'done' })
export const superseded = (why: string): Outcome => ({ kind: 'superseded', why })
export const snoozed = (why: string, delayMs: number): Outcome => ({ kind: 'snoozed', why, delayMs })
