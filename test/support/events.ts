import { type Event, type EventName, Events } from '../../src/events.ts'

/** Events that can be waited for, also after they have happened. */
export class RecordedEvents extends Events {
  readonly happened: Event[] = []

  constructor() {
    super()
    this.subscribe((event) => this.happened.push(event))
  }

  count(name: EventName): number {
    return this.happened.filter((event) => event.name === name).length
  }

  /** Resolves once `name` has happened `times` times. */
  async until(name: EventName, times = 1): Promise<Event> {
    while (this.count(name) < times) {
      await new Promise<void>((resolve) => {
        const unsubscribe = this.subscribe(() => {
          unsubscribe()
          resolve()
        })
      })
    }
    return this.happened.filter((event) => event.name === name)[times - 1] as Event
  }
}
