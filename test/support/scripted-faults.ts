import type { IncomingMessage } from 'node:http'

/** There is no answer. `performed`: done all the same, and only the answer is lost. */
export type LostAnswer = { kind: 'hang' | 'cut' | 'reset'; performed: boolean }

/** This is the answer, whatever it would have been. */
export type OtherAnswer = {
  kind: 'status'
  status: number
  body?: unknown
  headers?: Record<string, string>
  performed?: boolean
}

/** Which fault the next call of a route meets. */
export class ScriptedFaults<Route, Fault> {
  readonly #once = new Map<Route, Fault[]>()
  readonly #always = new Map<Route, Fault>()

  next(route: Route, faults: Fault[]): void {
    this.#once.set(route, [...(this.#once.get(route) ?? []), ...faults])
  }

  always(route: Route, fault: Fault): void {
    this.#always.set(route, fault)
  }

  heal(): void {
    this.#once.clear()
    this.#always.clear()
  }

  take(route: Route): Fault | undefined {
    return this.#once.get(route)?.shift() ?? this.#always.get(route)
  }
}

export function replyOf({ status, body, headers }: OtherAnswer): Pick<OtherAnswer, 'status' | 'body' | 'headers'> {
  return { status, ...(body !== undefined && { body }), ...(headers && { headers }) }
}

/** What becomes of the connection of a call that is not answered. */
export function leaveUnanswered({ socket }: IncomingMessage, fault: { kind: string } | undefined): void {
  if (fault?.kind === 'cut') socket.destroy()
  if (fault?.kind === 'reset') socket.resetAndDestroy()
}
