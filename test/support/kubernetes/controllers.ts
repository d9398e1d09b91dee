import { type Office, SandboxController } from './sandbox-controller.ts'

/** All that act on what others have written. */
export class Controllers {
  readonly #all: SandboxController[]

  constructor(office: Office) {
    this.#all = [new SandboxController(office)]
  }

  pause(): void {
    for (const { loop } of this.#all) loop.pause()
  }

  resume(): void {
    for (const { loop } of this.#all) loop.resume()
  }

  /** As when time has passed. */
  lookAgain(): void {
    for (const controller of this.#all) controller.lookAgain()
  }

  async stop(): Promise<void> {
    await Promise.all(this.#all.map(({ loop }) => loop.stop()))
  }
}
