import type { Fleet } from '../fleet/fleet.ts'
import type { Operation } from '../fleet/views.ts'
import type { Machine } from './machine.ts'
import type { Act, Facts, Mark, Verdict } from './show.ts'
import type { UsualCode } from './usual-code.ts'

/** What a column plays on. Both have a provider of the same kind, with the same faults, and each its own. */
type Scene = {
  machine: Machine
  say(text: string, mark?: Mark): void
  /** Ends the waiting of whoever plays, when somebody leaves. */
  signal: AbortSignal
}

export type UsualScene = Scene & { code: UsualCode }
export type SandmanScene = Scene & { fleet: Fleet; backend: string }

/** One that happened to somebody, to be played again. */
export type Incident = Pick<Act, 'letter' | 'title' | 'happened'> & {
  /** The provider that it is played on: its name says what is wrong with it. */
  provider: { name: string; canPause: boolean }
  usual(scene: UsualScene): Promise<Verdict>
  sandman(scene: SandmanScene): Promise<Verdict>
}

/** What was expected of a column is said only when it was seen. */
export function verdict(asExpected: boolean, facts: Facts, expected: string): Verdict {
  return { asExpected, text: asExpected ? expected : `not what was expected: ${JSON.stringify(facts)}`, facts }
}

/** How a step went, which is seen and not known beforehand. */
export function mark(isWell: boolean): Mark {
  return isWell ? 'good' : 'bad'
}

/** What became of an operation, in the word that an app switches on. */
export function outcomeOf({ outcome, error, status }: Operation): string {
  return outcome ?? error?.errorType ?? status
}

/** What its user is told by the usual code. */
export function answerOf(resuming: Promise<void>): Promise<string> {
  return resuming.then(
    () => 'resumed',
    (error: Error) => error.message,
  )
}

/** Of the sandboxes of the demo: it counts in its memory, and writes down how far it is. Who goes on counting has lost nothing. */
export const COUNTING = {
  command: ['sh', '-c', 'i=0; while :; do i=$((i+1)); echo $i > count; sleep 0.1; done'],
}

/** How long any operation of the demo may take: far longer than it does, for a machine that is busy. */
export const WAIT = { wait: '60s' } as const
