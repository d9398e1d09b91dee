import type { Requested } from '../src/db/request.ts'
import type { ExecutionRow, OperationRow } from '../src/db/schema.ts'
import type { Findings } from './findings.ts'

type Answer = Pick<OperationRow, 'status' | 'outcome' | 'checkpoint_id'> & { error: string | undefined }
type End = Pick<ExecutionRow, 'status' | 'reason' | 'exit_code' | 'output_bytes'>

/** As many are in use at a time. */
const LATEST = 5

/** What users were told: it has to be true for ever, and the same whenever it is asked for with the same key. */
export class Told {
  readonly #findings: Findings
  readonly #byKey = new Map<string, string>()
  readonly #given = new Map<string, unknown>()
  readonly #sandboxes: string[] = []
  readonly #executions: string[] = []
  readonly #snapshots: { id: string; backend: string }[] = []
  readonly #backends = new Map<string, string>()
  readonly operations = new Set<string>()
  readonly answers = new Map<string, Answer>()
  readonly ends = new Map<string, End>()
  /** Executions that somebody has wanted to be cancelled. */
  readonly cancelled = new Set<string>()

  constructor(findings: Findings) {
    this.#findings = findings
  }

  /** Most of the time one of the latest, so that several users want something of the same. */
  sandbox(which: number): string | undefined {
    const some = which % 4 === 0 ? this.#sandboxes : this.#sandboxes.slice(-LATEST)
    return some[(which >> 2) % (some.length || 1)]
  }

  execution(which: number): string | undefined {
    return this.#executions[which % (this.#executions.length || 1)]
  }

  snapshot(which: number, backend: string): string | undefined {
    const some = this.#snapshots.filter((snapshot) => snapshot.backend === backend)
    return some[which % (some.length || 1)]?.id
  }

  /** What is asked for with a key is the same, however often it is asked. */
  remember<T>(key: string | undefined, value: T): T {
    if (key === undefined) return value
    if (!this.#given.has(key)) this.#given.set(key, value)
    return this.#given.get(key) as T
  }

  accepted({ operation, sandbox }: Requested, key: string | undefined, backend?: string): void {
    if (backend !== undefined && !this.#sandboxes.includes(sandbox.id)) this.#sandboxes.push(sandbox.id)
    this.#backends.set(sandbox.id, sandbox.backend)
    this.operations.add(operation.id)
    this.#isTheSame(key, operation.id, sandbox.id)
    if (operation.settled_at !== null) this.settled(operation)
  }

  begun({ id, sandbox_id }: ExecutionRow, key: string | undefined): void {
    if (!this.#executions.includes(id)) this.#executions.push(id)
    this.#isTheSame(key, id, sandbox_id)
  }

  #isTheSame(key: string | undefined, id: string, about: string): void {
    if (key === undefined) return
    const before = this.#byKey.get(key) ?? id
    this.#byKey.set(key, id)
    if (before !== id)
      this.#findings.add('a key names one thing', about, `the key "${key}" has named ${before}, and then ${id}`)
  }

  settled(operation: OperationRow): void {
    const { id, status, outcome, error, checkpoint_id, kind, sandbox_id } = operation
    const answer = { status, outcome, checkpoint_id, error: error?.error_type }
    this.#never(this.answers, id, answer, sandbox_id)
    if (kind === 'snapshot' && checkpoint_id !== null && outcome !== null)
      this.#snapshots.push({ id: checkpoint_id, backend: this.#backends.get(sandbox_id) ?? '' })
  }

  ended(execution: ExecutionRow): void {
    const { id, status, reason, exit_code, output_bytes, sandbox_id } = execution
    this.#never(this.ends, id, { status, reason, exit_code, output_bytes }, sandbox_id)
  }

  /** What was said once is not said otherwise later. */
  #never<T>(said: Map<string, T>, id: string, now: T, about: string): void {
    const before = said.get(id)
    said.set(id, before ?? now)
    if (before !== undefined && JSON.stringify(before) !== JSON.stringify(now))
      this.#findings.add(
        'an answer stays as it is',
        about,
        `${id} was told as ${JSON.stringify(before)}, and then as ${JSON.stringify(now)}`,
      )
  }
}
