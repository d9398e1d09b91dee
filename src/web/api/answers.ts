import { z } from 'zod'
import type { Finding, Overdue, Sweep } from '../../fleet/sweep.ts'
import type { Checkpoint, Execution, OperationError, SandboxEvent } from '../../fleet/views.ts'
import { CHECKPOINT_KINDS, CHECKPOINT_STATUSES } from '../../sandbox/checkpoints.ts'
import { EXECUTION_REASONS, EXECUTION_STATUSES } from '../../sandbox/executions.ts'
import { FAILURES } from '../../sandbox/failures.ts'
import { FINDINGS } from '../../sandbox/findings.ts'
import { KINDS } from '../../sandbox/judge.ts'
import { LIMIT_NAMES } from '../../sandbox/limits.ts'
import { OPERATION_OUTCOMES, OPERATION_STATUSES } from '../../sandbox/operations.ts'
import { GONE_REASONS, STATES } from '../../sandbox/states.ts'
import type {
  answerView,
  executionAnswerView,
  operationView,
  sandboxView,
  sweepView,
  whyView,
} from '../../wire/views.ts'
import { describes } from './answer-schema.ts'

/** What the API answers: every answer is written by one of these, and the document shows them. */

const time = z.iso.datetime()
const keysOf = <Key extends string>(table: Record<Key, unknown>) => z.enum(Object.keys(table) as [Key, ...Key[]])
const free = z.record(z.string(), z.unknown())
const length = z.string().describe('A duration such as `90s`, `15m` or `24h`.')

export const CheckpointBody = describes<Checkpoint>()(
  z.strictObject({
    id: z.string(),
    kind: z.enum(CHECKPOINT_KINDS),
    status: z.enum(CHECKPOINT_STATUSES),
    provider_ref: z.string(),
    name: z.string().nullable(),
    size_bytes: z.int().nullable(),
    created_at: time,
    verified_at: time.nullable(),
  }),
)

export const SandboxBody = describes<ReturnType<typeof sandboxView>>()(
  z.strictObject({
    id: z.string(),
    fleet: z.string(),
    backend: z.string(),
    state: z.enum(STATES),
    gone_reason: z.enum(GONE_REASONS).nullable().describe('Set when it is gone, and only then.'),
    provider_ref: z.string().nullable(),
    incarnation: z.string().nullable(),
    checkpoint: CheckpointBody.nullable().describe('What it can be resumed from. Set when it is suspended.'),
    agent_thread_id: z.string().nullable(),
    preview_url: z.string().nullable(),
    metadata: free,
    ttl: z
      .strictObject({
        idle: length.nullable(),
        hard: length.nullable(),
        retention: length.nullable(),
        if_unsupported: z.literal('kill').nullable(),
      })
      .describe("Its own limits. What is null is its fleet's."),
    created_at: time,
    state_changed_at: time,
    last_active_at: time,
    expires_at: time.nullable().describe('When its provider ends it by itself, as far as that is known.'),
    operation: z.string().nullable().describe('The id of the operation that works on it now.'),
  }),
)

const OperationErrorBody = describes<OperationError>()(
  z.strictObject({
    error_type: keysOf(FAILURES),
    message: z.string(),
    retryable: z.boolean(),
    checkpoint_id: z.string().optional(),
  }),
)

export const OperationBody = describes<ReturnType<typeof operationView>>()(
  z.strictObject({
    id: z.string(),
    sandbox_id: z.string(),
    kind: z.enum(KINDS),
    status: z.enum(OPERATION_STATUSES),
    outcome: z.enum(OPERATION_OUTCOMES).nullable(),
    error: OperationErrorBody.nullable(),
    checkpoint: z.string().nullable().describe('The id of the checkpoint that it made, or found.'),
    attempt: z.int(),
    last_error: OperationErrorBody.nullable().describe('Why the latest attempt failed, when one has.'),
    created_at: time,
    started_at: time.nullable(),
    settled_at: time.nullable(),
  }),
)

export const ExecutionBody = describes<Execution>()(
  z.strictObject({
    id: z.string(),
    sandbox_id: z.string(),
    command: z.array(z.string()).nullable().describe('Null: it follows the agent that the sandbox was made with.'),
    status: z.enum(EXECUTION_STATUSES),
    reason: keysOf(EXECUTION_REASONS).nullable(),
    exit_code: z.int().nullable(),
    message: z.string().nullable(),
    breaks: z.int().describe('Breaks of its output in a row that brought nothing.'),
    output_bytes: z.int(),
    truncated: z.boolean().describe('It printed more than may be kept: `output_bytes` of it are.'),
    wake_operation_id: z.string().nullable(),
    created_at: time,
    started_at: time.nullable(),
    last_output_at: time.nullable(),
    ended_at: time.nullable(),
    hard_deadline_at: time.nullable(),
    cancel_requested_at: time.nullable(),
  }),
)

export const EventBody = describes<SandboxEvent>()(
  z.strictObject({
    id: z.int(),
    sandbox_id: z.string(),
    at: time,
    type: z.string(),
    from: z.enum(STATES).nullable(),
    to: z.enum(STATES).nullable(),
    operation_id: z.string().nullable(),
    execution_id: z.string().nullable(),
    detail: free,
  }),
)

export const AnswerBody = describes<ReturnType<typeof answerView>>()(
  z.strictObject({ operation: OperationBody, sandbox: SandboxBody }),
)

export const ExecutionAnswerBody = describes<ReturnType<typeof executionAnswerView>>()(
  z.strictObject({ execution: ExecutionBody, sandbox: SandboxBody }),
)

export const WhyBody = describes<ReturnType<typeof whyView>>()(
  z.strictObject({
    sandbox_id: z.string(),
    answer: z.string().describe('One sentence: where it is now, since when, and because of what.'),
    story: z.array(z.strictObject({ at: time, text: z.string() })).describe('The oldest first.'),
    is_complete: z.boolean().describe('False when older events were pruned, are too many, or never were.'),
  }),
)

const SweepBody = describes<Sweep>()(
  z.strictObject({
    backend: z.string(),
    place: z.string(),
    round: z.int(),
    instances: z.int(),
    checkpoints: z.int(),
    ended_at: time.nullable(),
    swept_at: time.nullable(),
    is_unswept: z.boolean(),
    believed_until: time.nullable(),
    failing: z.strictObject({ since: time, message: z.string() }).nullable(),
    stopped: z.strictObject({ since: time, because: z.string() }).nullable(),
  }),
)

const FindingBody = describes<Finding>()(
  z.strictObject({
    kind: keysOf(FINDINGS),
    what: z.string(),
    does: z.string(),
    backend: z.string(),
    place: z.string(),
    sandbox_id: z.string(),
    ref: z.string(),
    looks: z.array(z.strictObject({ at: z.string(), place: z.string(), asked: z.string(), saw: z.string() })),
    look_at: time.nullable(),
    is_certain: z.boolean(),
    acted_at: time.nullable(),
    operation_id: z.string().nullable(),
  }),
)

const OverdueBody = describes<Omit<Overdue, 'limitMs'> & { after: string }>()(
  z.strictObject({
    sandbox_id: z.string(),
    backend: z.string(),
    limit: z.enum(LIMIT_NAMES as [(typeof LIMIT_NAMES)[number]]),
    what: z.string(),
    does: z.enum(['pause', 'destroy', 'kill']),
    since: time,
    after: length,
    of: z.enum(['sandbox', 'fleet']),
  }),
)

export const SweepReportBody = describes<ReturnType<typeof sweepView>>()(
  z.strictObject({
    at: time,
    sweeps: z.array(SweepBody),
    unanswered: z.array(z.string()).describe('Backends that no worker has swept within the time.'),
    findings: z.array(FindingBody),
    overdue: z.array(OverdueBody),
    is_cut: z.boolean().describe('There is more than a report holds.'),
  }),
)

export function pageOf<Item extends z.ZodObject>(item: Item) {
  return z.strictObject({
    items: z.array(item),
    next_cursor: z.string().nullable().describe('Where the next page begins; null when there is none.'),
  })
}

export const ProblemBody = z.strictObject({
  type: z.literal('about:blank'),
  title: z.string(),
  status: z.int(),
  request_id: z.string().optional().describe('As it stands in the log.'),
  detail: z.string(),
  error_type: z.string().describe('A word to switch on.'),
  message: z.string().describe('A sentence for people; the same as `detail`.'),
  retryable: z.boolean().describe('The same request may succeed later.'),
  checkpoint_id: z.string().optional(),
  operation: OperationBody.optional().describe('The operation that failed or was refused.'),
  errors: z
    .array(z.strictObject({ field: z.string(), message: z.string() }))
    .optional()
    .describe('Every field that is wrong.'),
})

export const IndexBody = z.strictObject({
  name: z.literal('sandman'),
  version: z.string(),
  fleet: z.string(),
  links: z.record(z.string(), z.string()).describe('Relative to this resource.'),
})
