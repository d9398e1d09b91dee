/** A place where work stops until the test lets it go on, so that interleavings are chosen and not slept for. */
export type Gate = {
  readonly entries: number
  /** Called by the work: resolves once the gate is open. */
  enter(): Promise<void>
  /** Called by the test: resolves once work has come to the gate so many times. */
  entered(times: number): Promise<void>
  open(): void
}

export function gate(): Gate {
  let entries = 0
  const opened = Promise.withResolvers<void>()
  const waiters = new Map<number, PromiseWithResolvers<void>>()
  const waiter = (times: number) => {
    const known = waiters.get(times) ?? Promise.withResolvers<void>()
    waiters.set(times, known)
    return known
  }
  return {
    get entries() {
      return entries
    },
    enter() {
      waiter(++entries).resolve()
      return opened.promise
    },
    entered: (times) => (times <= entries ? Promise.resolve() : waiter(times).promise),
    open: () => opened.resolve(),
  }
}
