import type { Config } from '../config.ts'
import type { Command } from './command.ts'
import type { Io } from './io.ts'
import { secretsOf } from './secrets.ts'

/** One run of the command line. */
export class Session {
  readonly io: Io
  readonly commands: readonly Command[]
  #redact = (text: string) => text

  constructor(io: Io, commands: readonly Command[]) {
    this.io = io
    this.commands = commands
  }

  /** The settings. From then on nothing that is said has one of their secrets in it. */
  async config(overrides: Record<string, string> = {}): Promise<Config> {
    // Here and not above: help and completion do without what these bring.
    const [{ parseConfig }, { createRedactor }] = await Promise.all([import('../config.ts'), import('../redactor.ts')])
    const config = parseConfig({ ...this.io.environment(), ...overrides })
    this.#redact = createRedactor(secretsOf(config))
    return config
  }

  redact(text: string): string {
    return this.#redact(text)
  }

  /** For people. */
  async say(text: string): Promise<void> {
    await this.io.out.write(`${this.#redact(text)}\n`)
  }

  /** For people who have to know, wherever the answer goes. */
  async note(text: string): Promise<void> {
    await this.io.err.write(`${this.#redact(text)}\n`)
  }

  async complain(text: string): Promise<void> {
    await this.note(`sandman: ${text}`)
  }
}
