import type { Backend } from '../../src/backends/backend.ts'
import type { Event } from '../../src/events.ts'

/**
 * Where in its job an operation's worker dies: after it was taken, after so many answers of the provider, or after it has
 * settled.
 */
export type DyingPlace = 'taken' | number | 'settled'

/** Every place of a job that ran without a crash, in order. */
export function placesOf(events: Event[], operationId: string): { place: DyingPlace; after: string }[] {
  let answers = 0
  return events.flatMap(({ name, fields }): { place: DyingPlace; after: string }[] => {
    if (fields.operationId !== operationId) return []
    if (name === 'operation.taken') return [{ place: 'taken', after: 'it was taken' }]
    if (name === 'operation.settled') return [{ place: 'settled', after: 'it had settled' }]
    return name === 'provider.answered' ? [{ place: answers++, after: String(fields.call) }] : []
  })
}

/**
 * Stops operations at their places: there, a call was performed and its answer never comes. So one worker can be at every
 * place of a job at once when it is killed.
 */
export function stopAt(places: Record<string, DyingPlace>, reached: (operationId: string) => void) {
  const answers = new Map<string, number>()
  const released = Promise.withResolvers<void>()
  let asking: string | undefined
  const never = (operationId: string) => {
    reached(operationId)
    return new Promise<never>(() => {})
  }

  function stopping<Methods extends object>(methods: Methods): Methods {
    return new Proxy(methods, {
      get(target, name) {
        const member = Reflect.get(target, name) as unknown
        if (typeof member === 'object' && member !== null) return stopping(member)
        if (typeof member !== 'function') return member
        if (name === 'attach') return member.bind(target) // a stream has no answer to wait for
        return async (...args: unknown[]) => {
          const operationId = asking ?? ''
          const place = places[operationId]
          if (place === 'taken') return never(operationId)
          if (place === 'settled') await released.promise // or it would take the others down before they are there
          const answer = await (member as (...args: unknown[]) => unknown).apply(target, args)
          const nth = answers.get(operationId) ?? 0
          answers.set(operationId, nth + 1)
          return nth === place ? never(operationId) : answer
        }
      },
    })
  }

  return {
    backend: (backend: Backend): Backend => stopping(backend),
    /** Lets those go on that die when they have settled. */
    release: released.resolve,
    /** A call follows its event at once, so the event says for which operation it is. */
    onEvent({ name, fields }: Event): void {
      if (name === 'provider.asked') asking = String(fields.operationId)
      // Nothing comes between the end of settling and this.
      const isThere = name === 'operation.settled' && places[String(fields.operationId)] === 'settled'
      if (isThere) process.kill(process.pid, 'SIGKILL')
    },
  }
}
