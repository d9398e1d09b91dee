/**
 * How long a job waits for what: every bound of a provider's slowness, in one place. Each is far above what is usual, because
 * giving up early on something that works costs a sandbox, and waiting costs a slot of a queue.
 */
export const PATIENCE = {
  /** Outer deadlines of single calls. An SDK's own timeout is not relied upon: some do not cover the whole of a call. */
  callMs: {
    find: 15_000,
    list: 30_000,
    look: 10_000,
    create: 120_000,
    adopt: 30_000,
    end: 60_000,
    suspend: 300_000,
    resume: 60_000,
    snapshot: 300_000,
    verify: 300_000,
    discard: 60_000,
    lease: 10_000,
    probe: 15_000,
    hook: 60_000,
    end_lingering: 15_000,
    preview_url: 10_000,
    start_agent: 60_000,
    stop_agent: 30_000,
    agent_status: 10_000,
  },
  /** Starting, stopping: how long an instance may be on its way before the attempt has failed. Some pull an image first. */
  changingMs: 180_000,
  /** How long a checkpoint may be missing or unfinished after the provider called the instance suspended. */
  pendingMs: 60_000,
  /** How long a preview may take to answer after the last hook. A cold dev server compiles first. */
  previewMs: 45_000,
  /** One try of it, so that a server which accepts and says nothing does not use up all of the time. */
  previewTryMs: 5_000,
  /** Between two looks at something that is on its way. Doubles up to the second number. */
  pollMs: [100, 2_000] as readonly [number, number],
  /** Between two looks of an execution at an instance that is neither here nor there. */
  changingAgainMs: 1_000,
  /** Between two looks at an operation whose end nobody can tell, because the provider does not answer. */
  unknownMs: 60_000,
  /** After so many breaks of an output in a row without a byte it is lost. With the pauses in between, more than a minute. */
  breaksMax: 20,
  /** Before an output is attached to again that brought nothing, or a status is asked for again. Doubles up to the second number. */
  breakMs: [100, 5_000] as readonly [number, number],
  /** An output that was attached to for so long before it broke was a good one, also when the agent said nothing. */
  heldMs: 30_000,
  /** An agent that is silent for so long is asked for its status, because an output that hangs does not tell of its end. */
  quietMs: 30_000,
  /** And for so long: its output is attached to anew, because the connection may be dead. */
  staleMs: 120_000,
  /** So often in a row the output of an agent that has ended comes to its end, without a byte, before that is taken for its end. */
  emptyEnds: 3,
  /** Of an agent that has ended, an output that is silent for so long hangs, and is attached to anew. */
  drainQuietMs: 5_000,
  /** And an output of which no byte could be read for so long since then is not waited for any more. */
  drainMs: 30_000,
  /**
   * Before silence is believed, the output was listened to without a break for as long as the silence may last, but for no less
   * and no more than this: whoever has just taken over has not heard what was said before.
   */
  listenMs: [5_000, 10_000] as readonly [number, number],
  /** How long after its deadline an execution is given up whose agent cannot be stopped. */
  overdueMs: 60_000,
  /** How long a pause waits for the executions that it interrupts. */
  interruptMs: 60_000,
  /** What a provider's time-to-live is set to for a sandbox without a hard limit. It is renewed when half of it is over. */
  leaseMs: 3_600_000,
}

export type Patience = typeof PATIENCE
export type ProviderCall = keyof Patience['callMs']
