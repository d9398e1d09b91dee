/** What a failed or refused operation says of itself, as a word that an app can switch on; and everything that follows from it. */
export const FAILURES = {
  sandbox_unreachable: {
    means: 'The provider did not answer, or the sandbox did not wake. Nothing is known to be lost.',
    sandbox: 'as it was: one that was suspended is suspended. One that was to be made is gone',
    again: true,
    retryable: true,
    app: 'offer a retry',
  },
  sandbox_expired: {
    means: 'The provider says that there is no such sandbox: its time-to-live ended, or somebody deleted it.',
    sandbox: 'gone',
    again: false,
    retryable: false,
    app: 'offer a rebuild',
  },
  checkpoint_missing: {
    means: 'There is nothing to wake the sandbox from, or to make it from. The checkpoint is named.',
    sandbox: 'gone',
    again: false,
    retryable: false,
    app: 'offer a rebuild',
  },
  checkpoint_corrupt: {
    means: 'The checkpoint is there and is not whole. It is named.',
    sandbox: 'gone',
    again: false,
    retryable: false,
    app: 'offer a rebuild',
  },
  provider_unauthorized: {
    means: "The provider does not accept the worker's credentials.",
    sandbox: 'as it was',
    again: false,
    retryable: true,
    app: 'show it; a retry helps once the credentials are mended',
  },
  quota_exceeded: {
    means: "The provider's account has reached a limit.",
    sandbox: 'as it was',
    again: false,
    retryable: true,
    app: 'show it; a retry helps once something has ended or the limit is raised',
  },
  rate_limited: {
    means: 'Too many requests: the provider said so, or too many already wait for this sandbox.',
    sandbox: 'as it was',
    again: true,
    retryable: true,
    app: 'retry later',
  },
  spec_invalid: {
    means: 'The provider cannot make a sandbox from what was asked for, or cannot run it.',
    sandbox: 'gone: it never lived',
    again: false,
    retryable: false,
    app: 'fix the call',
  },
  invalid_transition: {
    means: 'What was asked for makes no sense while the sandbox is on its way elsewhere.',
    sandbox: 'unchanged',
    again: false,
    retryable: false,
    app: 'fix the call',
  },
  sandbox_gone: {
    means: 'The sandbox has ended, and the reason is kept with it.',
    sandbox: 'unchanged',
    again: false,
    retryable: false,
    app: 'fix the call, or resume with `ifLost: "respawn"`',
  },
  pause_unsupported: {
    means: 'Its backend cannot pause.',
    sandbox: 'unchanged',
    again: false,
    retryable: false,
    app: 'fix the call, or pause with `ifUnsupported: "kill"`',
  },
  sandbox_busy: {
    means: 'Executions run in it, and the pause was not told what to do about them.',
    sandbox: 'unchanged: what runs in it runs on',
    again: false,
    retryable: true,
    app: 'pause when they have ended, or with `ifBusy: "wait"` or `"interrupt"`',
  },
  sandbox_suspended: {
    means: 'The sandbox sleeps, and what was asked for was not to wake it.',
    sandbox: 'unchanged',
    again: false,
    retryable: false,
    app: 'fix the call, or let it wake the sandbox',
  },
  snapshot_unsupported: {
    means: 'Its backend cannot copy a running sandbox.',
    sandbox: 'unchanged',
    again: false,
    retryable: false,
    app: 'fix the call',
  },
  internal: {
    means: 'Something else went wrong; the message and the log say what.',
    sandbox: 'as it was',
    again: true,
    retryable: true,
    app: 'retry, and look at the log',
  },
} as const satisfies Record<string, Consequence>

type Consequence = {
  means: string
  /** Where it leaves the sandbox, unless the provider shows something else: what is there is there. */
  sandbox: string
  /** The worker tries again by itself, as often as its queue says, before it settles the operation. */
  again: boolean
  /** The app may ask for the same again. */
  retryable: boolean
  app: string
}

export type FailureType = keyof typeof FAILURES

/** As it is stored with the operation and sent to apps. */
export type Failure = { error_type: FailureType; message: string; retryable: boolean; checkpoint_id?: string }

/** As much of a provider's or a sandbox's words as helps. */
const MESSAGE_MAX = 2_000

/** Text that a database can keep, whatever it was that a sandbox has said: no NUL, no half characters, and not too much. */
export function storable(text: string, max = MESSAGE_MAX): string {
  const cut = text.length <= max ? text : `${text.slice(0, max)}…`
  return cut.replaceAll('\0', '�').toWellFormed()
}

/** The same of all texts in something, as JSON. One that is short as a whole and escapes nothing of the kind needs no look at each. */
export function storableJson(value: unknown): string {
  const json = JSON.stringify(value)
  if (json.length <= MESSAGE_MAX && !json.includes('\\u')) return json
  return JSON.stringify(value, (_key, each: unknown) => (typeof each === 'string' ? storable(each) : each))
}

export function failure(type: FailureType, text: string, checkpointId?: string): Failure {
  const { retryable } = FAILURES[type]
  const message = storable(text)
  return { error_type: type, message, retryable, ...(checkpointId !== undefined && { checkpoint_id: checkpointId }) }
}
