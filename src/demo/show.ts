/** What the demo shows, and what of it has been shown so far. A terminal, a page and a script read the same. */

export const SIDES = ['usual', 'sandman'] as const
export type Side = (typeof SIDES)[number]

export const SIDE_NAMES: Record<Side, string> = { usual: 'the usual code', sandman: 'Sandman' }

/** What a step is to somebody who looks on: something that was done, a provider's fault, or what went well or badly. */
export type Mark = 'did' | 'fault' | 'good' | 'bad'
export type Step = { atMs: number; mark: Mark; text: string }

/** What was seen when it was over: in a row, in the system's list of processes, in a folder. Never what somebody has said. */
export type Facts = Readonly<Record<string, string | number | boolean | null | readonly string[]>>

/** `asExpected`: the usual code has failed as it does, or Sandman has held. Judged by the facts. */
export type Verdict = { asExpected: boolean; text: string; facts: Facts }

export type Column = { steps: Step[]; verdict: Verdict | null }

export type Act = {
  readonly letter: string
  readonly title: string
  /** What happened to somebody. */
  readonly happened: string
  state: 'waiting' | 'playing' | 'over'
  begunMs: number
  readonly columns: Record<Side, Column>
}

export class Show {
  readonly acts: readonly Act[]
  readonly #changes = new EventTarget()

  constructor(plays: readonly Pick<Act, 'letter' | 'title' | 'happened'>[]) {
    this.acts = plays.map(({ letter, title, happened }) => ({
      letter,
      title,
      happened,
      state: 'waiting',
      begunMs: 0,
      columns: { usual: { steps: [], verdict: null }, sandman: { steps: [], verdict: null } },
    }))
  }

  get isOver(): boolean {
    return this.acts.every(({ state }) => state === 'over')
  }

  /** Every usual column has failed, and every one of Sandman's has held. */
  get wasAsExpected(): boolean {
    return this.acts.every(({ columns }) => SIDES.every((side) => columns[side].verdict?.asExpected === true))
  }

  begin(act: Act): void {
    act.state = 'playing'
    act.begunMs = performance.now()
    this.#changed()
  }

  step(act: Act, side: Side, mark: Mark, text: string): void {
    act.columns[side].steps.push({ atMs: Math.round(performance.now() - act.begunMs), mark, text })
    this.#changed()
  }

  judge(act: Act, side: Side, verdict: Verdict): void {
    act.columns[side].verdict = verdict
    if (SIDES.every((each) => act.columns[each].verdict)) act.state = 'over'
    this.#changed()
  }

  onChange(listener: () => void, { signal }: { signal?: AbortSignal } = {}): void {
    this.#changes.addEventListener('change', listener, signal ? { signal } : {})
  }

  #changed(): void {
    this.#changes.dispatchEvent(new Event('change'))
  }
}
