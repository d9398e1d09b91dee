import { inspect } from 'node:util'

type Level = 'debug' | 'info' | 'warn' | 'error' | 'fatal'

/**
 * Everything a process says about itself: name, level and wording in one place. Code emits an event with its fields;
 * `logger.ts` makes a line of it, and a test waits for it instead of sleeping.
 */
export const EVENTS = {
  'process.started': { level: 'info', says: 'started' },
  'process.stopping': { level: 'info', says: 'stopping: no new work is taken' },
  'process.stopped': { level: 'info', says: 'stopped' },
  'process.crashed': { level: 'fatal', says: 'crashed: an error reached nobody' },
  'listener.failed': { level: 'error', says: 'a listener failed at an event; nothing else does, and it is said once' },
  'database.migrated': { level: 'info', says: 'database migrated' },
  'database.connection_lost': { level: 'warn', says: 'lost a database connection' },
  'queue.connection_lost': { level: 'warn', says: 'lost the connection to the queue; reconnecting' },
  'queue.connection_restored': { level: 'info', says: 'the queue answers again' },
  'queue.error': { level: 'error', says: 'the queue reported an error' },
  'queue.may_evict': {
    level: 'warn',
    says: 'Redis may evict jobs under memory pressure: set its maxmemory-policy to noeviction',
  },
  'request.answered': { level: 'debug', says: 'answered a request' },
  'request.failed': { level: 'error', says: 'a request failed here, and not by its own fault' },
  'tracing.failed': { level: 'warn', says: 'traces could not be sent' },
  'operation.unheard': { level: 'warn', says: 'the queue was not rung for an operation; it will be, later' },
  'operation.rung_again': { level: 'info', says: 'rang again for an operation that nobody had heard of' },
  'operation.taken': { level: 'debug', says: 'took an operation' },
  'operation.accepted': { level: 'debug', says: 'an operation was accepted, and its sandbox is on its way' },
  'operation.answered': { level: 'debug', says: 'an operation was answered without any work' },
  'operation.settled': { level: 'info', says: 'operation settled' },
  'operation.undecided': { level: 'warn', says: 'nobody can say how an operation ended; it is looked at again' },
  'operation.left_over': { level: 'warn', says: 'could not tidy up after an operation; the sweeper will' },
  'execution.unheard': { level: 'warn', says: 'the queue was not rung for an execution; it will be, later' },
  'execution.rung_again': { level: 'info', says: 'rang again for an execution that nobody was heard to follow' },
  'execution.followed': { level: 'debug', says: 'follows an execution' },
  'execution.broke': { level: 'debug', says: 'the output of an execution ended or was cut' },
  'execution.set_back': { level: 'warn', says: 'could not go on with an execution; it is taken up again' },
  'execution.ended': { level: 'info', says: 'execution ended' },
  'execution.interrupted': { level: 'info', says: 'execution ended with what it ran in' },
  'execution.left_over': { level: 'warn', says: 'could not stop the agent of an execution' },
  'execution.roll_call_failed': { level: 'warn', says: 'could not ask what is wished of executions; asking again' },
  'bell.failed': {
    level: 'warn',
    says: 'could not look for operations and executions that nobody has heard of; looking again',
  },
  'notice.failed': {
    level: 'debug',
    says: 'could not announce what has settled or was printed; who waits looks by itself',
  },
  'wait.failed': { level: 'warn', says: 'could not look for what is waited for, or watched; looking again' },
  'reaper.asked': { level: 'info', says: 'a sandbox has reached a limit; what that means was asked for' },
  'reaper.not_renewed': {
    level: 'warn',
    says: 'a sandbox could not be given more time at its provider; that is tried again',
  },
  'reaper.ticked': { level: 'info', says: 'the reaper has seen to what was due' },
  'reaper.prune_failed': { level: 'warn', says: 'could not forget what is old; trying again' },
  'schedule.made': { level: 'debug', says: 'the queue has its schedule' },
  'schedule.failed': { level: 'warn', says: 'could not see to the schedules of the queue; trying again' },
  'sweep.failing': {
    level: 'warn',
    says: 'a provider fails: nothing is concluded from what it shows until it works again',
  },
  'sweep.works_again': { level: 'info', says: 'a provider that was failing was read to its end' },
  'sweep.stopped': { level: 'error', says: 'the sweep was stopped: what its provider shows is not believed' },
  'sweep.goes_on': { level: 'info', says: 'the sweep goes on: its provider shows again what it should' },
  'sweep.suspects': {
    level: 'info',
    says: 'something is not as it should be; it is looked at again before anything is done',
  },
  'sweep.dismissed': { level: 'info', says: 'what was suspected is as it should be' },
  'sweep.acted': { level: 'warn', says: 'something was twice not as it should be, and is seen to' },
  'sweep.capped': {
    level: 'warn',
    says: 'the sweep has done as much as it may in one tick; the rest comes with the next ones',
  },
  'sweep.unanswered': { level: 'warn', says: 'a look brought no answer; it is repeated later' },
  'sweep.round_ended': { level: 'info', says: 'everything was compared once' },
  'sweep.reconciling': { level: 'warn', says: 'nobody has worked on an operation; the sweeper does' },
  'invariant.checked': { level: 'debug', says: 'looked whether what must always be true is' },
  'invariant.violated': { level: 'error', says: 'what must always be true is not: this is a bug, please report it' },
  'invariant.unchecked': {
    level: 'warn',
    says: 'could not look whether what must always be true is; the next look goes on',
  },
  'tally.not_added': { level: 'warn', says: 'could not write down what was counted; it is kept, and written later' },
  'provider.asked': { level: 'debug', says: 'asked the provider' },
  'provider.answered': { level: 'debug', says: 'the provider answered' },
  'provider.failed': { level: 'debug', says: 'the provider did not do what it was asked' },
  'sandbox.lease_short': { level: 'warn', says: 'the provider gives a sandbox less time to live than was asked for' },
  'job.started': { level: 'debug', says: 'job started' },
  'job.done': { level: 'info', says: 'job done' },
  'job.ticked': { level: 'debug', says: 'scheduled job done' },
  'job.superseded': { level: 'info', says: 'job had nothing left to do' },
  'job.snoozed': { level: 'info', says: 'job waits before it looks again' },
  'job.failed': { level: 'warn', says: 'job failed; it will be tried again' },
  'job.gave_up': { level: 'error', says: 'job failed for good' },
  'job.handed_back': { level: 'info', says: 'job handed back for another worker: this one is stopping' },
  'job.stalled': { level: 'warn', says: 'job was left by a worker that vanished; it runs again' },
} as const satisfies Record<string, { level: Level; says: string }>

export type EventName = keyof typeof EVENTS
export type Event = { name: EventName; fields: Record<string, unknown> }

type Listener = (event: Event) => void

export class Events {
  #listeners: readonly Listener[] = []
  /** Of each it is told once, which is also the end of it when one fails at hearing of that. */
  readonly #failing = new WeakSet<Listener>()

  /** A listener is most often an app's. Whatever it makes of an event must not reach who is in the middle of something. */
  emit(name: EventName, fields: Record<string, unknown> = {}): void {
    const event = { name, fields }
    for (const listener of this.#listeners) {
      try {
        const told: unknown = listener(event)
        if (told instanceof Promise) told.catch((error: unknown) => this.#failed(listener, name, error))
      } catch (error) {
        this.#failed(listener, name, error)
      }
    }
  }

  /** Calls `listener` with every event from now on, until the returned function is called. */
  subscribe(listener: Listener): () => void {
    // A new list, so that who comes or goes because of an event changes nothing for that event.
    this.#listeners = [...this.#listeners, listener]
    return () => {
      this.#listeners = this.#listeners.filter((other) => other !== listener)
    }
  }

  #failed(listener: Listener, heard: EventName, error: unknown): void {
    if (this.#failing.has(listener)) return
    this.#failing.add(listener)
    this.emit('listener.failed', { heard, error })
    // An app has no log of ours, and the one whom it gave us to tell is the one that fails.
    process.emitWarning(`A listener to Sandman's events failed at ${heard}, and maybe at others since.`, {
      type: 'SandmanWarning',
      detail: inspect(error),
    })
  }
}
