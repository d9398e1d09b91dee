import { EventEmitter, once } from 'node:events'

type Status =
  | { is: 'running' }
  | { is: 'terminated'; exitCode: number | null; signal: string | null; oomKilled?: boolean }
  | { is: 'restarted'; why: string }

/** An agent that says what a test has it say. Its output is what it has written; what a stream shows of it may be less. */
export class FakeAgent {
  readonly command: string[]
  readonly startedIn: number
  status: Status = { is: 'running' }
  /** So often its status is told as it was before it ended. */
  lagsFor = 0
  /** It does not stop when it is asked to. */
  isStubborn = false
  /** What it does when it is asked to. */
  whenStopped = (): void => this.exit({ signal: 'SIGTERM' })
  bytes = Buffer.alloc(0)
  readonly #changed = new EventEmitter().setMaxListeners(0)

  constructor(command: string[], startedIn: number) {
    this.command = command
    this.startedIn = startedIn
  }

  write(text: string | Uint8Array): void {
    this.bytes = Buffer.concat([this.bytes, Buffer.from(text as string)])
    this.#changed.emit('change')
  }

  exit(end: { exitCode?: number; signal?: string; oomKilled?: boolean; statusLagsFor?: number } = {}): void {
    const { exitCode = end.signal === undefined ? 0 : null, signal = null, oomKilled, statusLagsFor = 0 } = end
    this.lagsFor = statusLagsFor
    this.status = { is: 'terminated', exitCode, signal, ...(oomKilled !== undefined && { oomKilled }) }
    this.#changed.emit('change')
  }

  /** Every stream of it is cut. */
  breakStreams(): void {
    this.#changed.emit('cut')
  }

  /** Its streams look again whether there is anything left to stream from. */
  stir(): void {
    this.#changed.emit('change')
  }

  get hasEnded(): boolean {
    return this.status.is !== 'running'
  }

  changed(): Promise<unknown> {
    return once(this.#changed, 'change')
  }

  onCut(cut: () => void): void {
    this.#changed.once('cut', cut)
  }
}
