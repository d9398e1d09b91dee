import type { ExecutionEnd } from './executions.ts'

/** What is known of the agent when its output has ended, or was cut. */
export type AgentSeen =
  | { is: 'running' }
  | {
      is: 'terminated'
      exitCode: number | null
      signal: string | null
      oomKilled: boolean | undefined
      /** Nobody can say how, because its whole sandbox is lost: why. */
      lost?: string
    }
  | { is: 'restarted'; why: string }
  | { is: 'asleep' }
  | { is: 'none' }
  /** Its provider says that there is no such instance. */
  | { is: 'absent' }
  /** Nobody can say: the provider does not answer. */
  | { is: 'unknown'; why: string }

/** Why an agent is to be stopped. */
export const WISHES = ['cancel', 'deadline', 'silence'] as const
export type Wish = (typeof WISHES)[number]

/** Everything that the decision depends on. */
export type StreamEnd = {
  agent: AgentSeen
  /** Output has come since the last break, or the stream had held for long enough to be a good one. */
  progressed: boolean
  /** Breaks in a row that brought nothing, this one included. Kept in the row, so that no worker begins to count anew. */
  breaks: number
  breaksMax: number
  /** The output was read to its end: its backend says so; or it ended again and again, without a byte, after the agent had. */
  drained: boolean
  /** The agent has ended, and for so long no more could be read of its output that nobody waits for that any longer. */
  undrainable: boolean
  /** What was asked of it, or what it has passed; if its agent was asked to stop, then for what. */
  wish: Wish | undefined
  /** The agent was asked to stop, for that wish. An agent that ended before that has ended by itself, whatever is wished. */
  wasStopped: boolean
  /** The hard deadline, or a stop because of silence, is so long past that whoever was to be stopped by now was not. */
  overdue: boolean
  /** An operation that pauses or ends its sandbox is at work: that will say what became of it. */
  moving: boolean
  /** It follows the agent that the sandbox was made with, and not a command of its own. */
  followsOwn: boolean
  /** Why its command could not be started so far. */
  notStarted: string | undefined
}

type StreamDecision =
  /** From the cursor, at once or after a pause that grows with the breaks. */
  | { action: 'attach' }
  /** Asks for the status again, after such a pause. */
  | { action: 'wait' }
  /** Stops the agent, and then asks again. */
  | { action: 'stop' }
  /** `stop`: the agent may still run, and nobody will follow it any more. */
  | { action: 'finish'; end: ExecutionEnd; stop: boolean }

type Rule = {
  agent: string
  and: string
  says: string
  applies(seen: StreamEnd): boolean
  decision(seen: StreamEnd): StreamDecision
}

const attach = (): StreamDecision => ({ action: 'attach' })
const wait = (): StreamDecision => ({ action: 'wait' })
const finish = (end: ExecutionEnd, { stop = false } = {}): StreamDecision => ({ action: 'finish', end, stop })
const failed = (
  reason: Extract<ExecutionEnd, { status: 'failed' }>['reason'],
  message: string,
  { stop = false, exitCode }: { stop?: boolean; exitCode?: number | undefined } = {},
) => finish({ status: 'failed', reason, message, exitCode }, { stop })

const isDead = ({ agent }: StreamEnd) => agent.is === 'terminated'
/** Not by its own exit. That may have been the operation which is at work on its sandbox. */
const mayHaveBeenEnded = ({ agent }: StreamEnd) =>
  agent.is === 'terminated' ? agent.exitCode === null || agent.exitCode > 128 : agent.is !== 'running'
const hasMore = ({ breaks, breaksMax }: StreamEnd) => breaks < breaksMax

/**
 * What to do when an agent's output has ended. The first rule that applies decides. What counts is the agent's own process:
 * a sidecar that lives on, and with it the phase of a pod, says nothing.
 */
export const STREAM_RULES: readonly Rule[] = [
  {
    agent: 'terminated',
    and: 'its output may not have been read to its end',
    says: 'attach again, from the cursor',
    applies: (seen) => isDead(seen) && !seen.drained && !seen.undrainable && !seen.overdue,
    decision: attach,
  },
  {
    agent: 'terminated',
    and: 'it was stopped because it was to be cancelled',
    says: '`cancelled`, with its exit code',
    applies: (seen) => isDead(seen) && seen.wasStopped && seen.wish === 'cancel',
    decision: ({ agent }) =>
      finish({ status: 'cancelled', reason: 'cancelled', exitCode: exitCodeOf(agent), message: 'It was cancelled.' }),
  },
  {
    agent: 'terminated',
    and: 'it was stopped because a deadline had passed',
    says: 'failed: `deadline_exceeded`, with its exit code',
    applies: (seen) => isDead(seen) && seen.wasStopped,
    decision: ({ agent, wish }) => {
      const why = wish === 'silence' ? 'because it was silent for longer than it may' : 'at its deadline'
      return failed('deadline_exceeded', `It was stopped ${why}.`, { exitCode: exitCodeOf(agent) })
    },
  },
  {
    agent: 'anything but running or ended by itself',
    and: 'an operation pauses or ends its sandbox',
    says: 'wait: the operation says what became of it',
    applies: (seen) => seen.moving && !seen.overdue && mayHaveBeenEnded(seen),
    decision: wait,
  },
  {
    agent: 'terminated',
    and: '',
    says: '`succeeded` on exit code 0, else failed: `oom_killed`, `signal` or `error`; `instance_lost` if its sandbox is lost',
    applies: isDead,
    decision: ({ agent, drained }) => {
      const end = endOf(agent as Terminated)
      const message = [end.message, ...(drained ? [] : ['The end of its output could not be read.'])]
        .filter(Boolean)
        .join(' ')
      return finish(message === '' ? end : { ...end, message })
    },
  },
  {
    agent: 'not found',
    and: '',
    says: 'failed: `instance_lost`',
    applies: ({ agent }) => agent.is === 'absent',
    decision: () => failed('instance_lost', 'Its provider says that there is no such sandbox any more.'),
  },
  {
    agent: 'restarted, or of another incarnation',
    and: '',
    says: 'failed: `agent_restarted`',
    applies: ({ agent }) => agent.is === 'restarted',
    decision: ({ agent }) => failed('agent_restarted', agent.is === 'restarted' ? agent.why : ''),
  },
  {
    agent: 'none at all',
    and: 'it follows the agent of the sandbox',
    says: 'failed: `error`',
    applies: ({ agent, followsOwn }) => agent.is === 'none' && followsOwn,
    decision: () => failed('error', 'Its sandbox has no agent of its own: give the execution a command.'),
  },
  {
    agent: 'none at all',
    and: 'it was to be cancelled, or its deadline has passed',
    says: '`cancelled`, or failed: `deadline_exceeded`',
    applies: ({ agent, wish }) => agent.is === 'none' && wish !== undefined,
    decision: ({ wish }) =>
      wish === 'cancel'
        ? finish({
            status: 'cancelled',
            reason: 'cancelled',
            message: 'It was cancelled before its agent was started.',
          })
        : failed('deadline_exceeded', 'Its deadline passed before its agent was started.'),
  },
  {
    agent: 'unknown, none, asleep or running',
    and: 'its hard deadline has passed, or it was stopped because of silence, so long ago that this must have failed',
    says: 'failed: `deadline_exceeded`',
    applies: ({ overdue }) => overdue,
    decision: ({ agent }) =>
      failed(
        'deadline_exceeded',
        agent.is === 'unknown'
          ? `Its deadline has passed, and nobody can say whether its agent still runs: ${agent.why}`
          : 'Its deadline has passed, and its agent could not be stopped.',
        { stop: true },
      ),
  },
  {
    agent: 'unknown: the provider does not answer',
    and: '',
    says: 'wait, until it is known or the deadline has passed',
    applies: ({ agent }) => agent.is === 'unknown',
    decision: wait,
  },
  {
    agent: 'asleep, or none',
    and: 'there were fewer than N breaks in a row, and nothing is wished of it',
    says: 'wait: what is shown may lag',
    applies: (seen) =>
      (seen.agent.is === 'asleep' || seen.agent.is === 'none') && hasMore(seen) && seen.wish === undefined,
    decision: wait,
  },
  {
    agent: 'none',
    and: 'it could not be started',
    says: 'failed: `error`, with why',
    applies: ({ agent, notStarted }) => agent.is === 'none' && notStarted !== undefined,
    decision: ({ notStarted }) => failed('error', `It was not started: ${notStarted}`),
  },
  {
    agent: 'asleep, or none',
    and: '',
    says: 'failed: `instance_lost`',
    applies: ({ agent }) => agent.is === 'asleep' || agent.is === 'none',
    decision: ({ agent }) =>
      failed(
        'instance_lost',
        agent.is === 'asleep' ? 'Its provider has put its sandbox to sleep.' : 'Its provider knows of no such agent.',
      ),
  },
  {
    agent: 'running',
    and: 'it was to be cancelled, or its deadline has passed',
    says: 'stop it, and ask again',
    applies: ({ wish }) => wish !== undefined,
    decision: () => ({ action: 'stop' }),
  },
  {
    agent: 'running',
    and: 'output has flowed since the last break, or there were fewer than N breaks in a row',
    says: 'attach again, from the cursor',
    applies: (seen) => seen.progressed || hasMore(seen),
    decision: attach,
  },
  {
    agent: 'running',
    and: '',
    says: 'failed: `stream_lost`, and the agent is stopped',
    applies: () => true,
    decision: ({ breaks }) =>
      failed('stream_lost', `Its output ended ${breaks} times in a row without a byte, although its agent runs.`, {
        stop: true,
      }),
  },
]

export function decideAtStreamEnd(seen: StreamEnd): StreamDecision {
  const rule = STREAM_RULES.find(({ applies }) => applies(seen)) as Rule // the last one applies to everything
  return rule.decision(seen)
}

type Terminated = Extract<AgentSeen, { is: 'terminated' }>

/** In the order of their numbers on Linux, from 1 on. */
const SIGNALS =
  'HUP INT QUIT ILL TRAP ABRT BUS FPE KILL USR1 SEGV USR2 PIPE ALRM TERM STKFLT CHLD CONT STOP TSTP TTIN TTOU URG XCPU XFSZ VTALRM PROF WINCH IO PWR SYS'.split(
    ' ',
  )

function exitCodeOf(agent: AgentSeen): number | undefined {
  if (agent.is !== 'terminated') return undefined
  return agent.exitCode ?? (agent.signal === null ? undefined : exitCodeBy(agent.signal))
}

/** As a shell tells it, and every container engine: 128 and the number of the signal. */
function exitCodeBy(signal: string): number | undefined {
  const number = SIGNALS.indexOf(signal.replace('SIG', '')) + 1
  return number === 0 ? undefined : 128 + number
}

function endOf(agent: Terminated): ExecutionEnd {
  const exitCode = exitCodeOf(agent)
  if (agent.lost !== undefined)
    return { status: 'failed', reason: 'instance_lost', message: `Its sandbox is lost: ${agent.lost}` }
  if (agent.oomKilled) {
    const message = 'The agent was killed because it used more memory than it may.'
    return { status: 'failed', reason: 'oom_killed', exitCode: exitCode ?? exitCodeBy('SIGKILL'), message }
  }
  if (agent.signal !== null)
    return { status: 'failed', reason: 'signal', exitCode, message: `The agent was ended by ${agent.signal}.` }
  if (agent.exitCode === 0) return { status: 'succeeded', reason: 'completed', exitCode: 0 }
  const message =
    agent.exitCode === null
      ? 'The agent has ended, and nobody can say how.'
      : `The agent ended with exit code ${agent.exitCode}.`
  return { status: 'failed', reason: 'error', exitCode, message }
}
