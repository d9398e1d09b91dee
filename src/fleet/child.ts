/** What a child of `sandman dev` tells it once it works. */
export type ReadyMessage = { ready: true; url?: string }

/** The child has said why on its own stderr; there is nothing to add to it. */
export class ChildFailed extends Error {
  constructor(role: string) {
    super(`The ${role} process did not start.`)
    this.name = 'ChildFailed'
  }
}
