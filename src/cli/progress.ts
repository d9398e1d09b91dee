import type { Answer } from '../fleet/fleet.ts'
import { Frame } from './frame.ts'
import { paint, STATE_COLOURS } from './paint.ts'
import type { Session } from './session.ts'
import { layTable } from './table.ts'
import { took } from './took.ts'

/** A line for everybody who is being waited for, which moves; only on a terminal. */
export class Progress {
  readonly #session: Session
  readonly #frame: Frame | undefined
  readonly #begunMs = performance.now()
  readonly #waiting = new Map<string, Answer>()
  /** One writes at a time, or a line would stand where another is taken away. */
  #turn: Promise<void> = Promise.resolve()

  constructor(session: Session, isWanted: boolean) {
    this.#session = session
    if (isWanted && session.io.err.isTerminal) this.#frame = new Frame(session.io.err)
  }

  /** Whether anybody looks. */
  get isShown(): boolean {
    return this.#frame !== undefined
  }

  update(answer: Answer): Promise<void> {
    return this.#inTurn(async () => {
      this.#waiting.set(answer.sandbox.id, answer)
      await this.#draw()
    })
  }

  /** Prints what has come of one. The lines of the others stay below it. */
  settle(sandboxId: string, print: () => Promise<void>): Promise<void> {
    return this.#inTurn(async () => {
      this.#waiting.delete(sandboxId)
      await this.#frame?.clear()
      await print()
      await this.#draw()
    })
  }

  end(): Promise<void> {
    return this.#inTurn(async () => {
      await this.#frame?.clear()
      await this.#frame?.end()
    })
  }

  #inTurn(work: () => Promise<void>): Promise<void> {
    const mine = this.#turn.then(work)
    this.#turn = mine.catch(() => {})
    return mine
  }

  async #draw(): Promise<void> {
    if (!this.#frame || this.#waiting.size === 0) return
    const { err } = this.#session.io
    const elapsed = took(performance.now() - this.#begunMs)
    const rows = [...this.#waiting.values()].map(({ operation: { kind, status, attempt }, sandbox: { id, state } }) => [
      { text: id },
      { text: state, colour: STATE_COLOURS[state] },
      { text: `${kind} ${status}${attempt > 1 ? `, attempt ${attempt}` : ''}` },
      { text: elapsed },
    ])
    const columns = rows[0]?.map(() => ({ title: '' })) ?? []
    const lines = layTable(columns, rows, { width: err.columns(), hasColours: err.hasColours, hasTitles: false })
    await this.#frame.draw([...lines, paint('Ctrl-C stops the waiting, and not the work.', 'dim', err.hasColours)])
  }
}
