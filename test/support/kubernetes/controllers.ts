import type { Served } from './catalogue.ts'
import { ClaimController } from './claim-controller.ts'
import type { ControlLoop } from './control-loop.ts'
import type { Office } from './office.ts'
import { PoolController } from './pool-controller.ts'
import { SandboxController } from './sandbox-controller.ts'

type Controller = { loop: ControlLoop; lookAgain(): void }

/** All that act on what others have written. */
export class Controllers {
  readonly #all: Controller[]

  constructor(
    office: Office,
    { sandboxes, extensions }: Served,
    options: { staleSuspended: boolean },
    snapshots: Controller | undefined,
  ) {
    this.#all = [
      ...(sandboxes.length > 0 ? [new SandboxController(office, options)] : []),
      ...(extensions ? [new PoolController(office), new ClaimController(office)] : []),
      ...(snapshots ? [snapshots] : []),
    ]
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
