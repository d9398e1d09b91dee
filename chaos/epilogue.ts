import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../proof/random.ts'
import type { Kind } from '../src/sandbox/judge.ts'
import { type AgentPlan, commandOf, outputOf } from './agents.ts'
import { type Answer, Api } from './api.ts'
import { Diary } from './diary.ts'
import type { Site } from './site.ts'
import { seeTruth, startsFolder, type TrueInstance } from './truth.ts'

/** What was asked for in the quiet, and was not done: in a sentence. */
export type Undone = { sandboxId: string | undefined; says: string }

/** Both can do all that is asked for here. */
const BACKENDS = ['local', 'e2b'] as const
/** What comes last, and what is done before: between them, each thing is asked for. */
const COURSES = {
  kill: ['execute', 'pause', 'resume', 'snapshot'],
  destroy: ['snapshot', 'pause'],
} as const

/** Where nothing is in the way. What takes longer does not happen. */
const STEP_MS = 60_000
/** A request waits for so long, which is less than a client's patience, and is then asked again. */
const WAIT = '10s'
const LOOK_MS = 100
const SHORT_LINES = 12
/** It runs for half a minute: longer than it takes to end it, and not longer than a run should go on if nobody does. */
const LONG_LINES = 600

/**
 * When everything has settled, somebody asks for each thing once more on each backend, and looks at once whether it is so. A fleet
 * that fails whatever it is asked for has nothing that could be lost, and here it is found out.
 */
export async function askInTheQuiet(site: Site, seed: number, signal: AbortSignal): Promise<Undone[]> {
  const undone: Undone[] = []
  // One after the other: what one of them is about to remove, nobody else is looking at.
  for (const backend of BACKENDS)
    for (const last of ['kill', 'destroy'] as const) {
      const guest = new Guest(site, { backend, name: `quiet-${backend}-${last}`, seed, signal })
      undone.push(...(await guest.run(last)))
    }
  return undone
}

type Visit = { backend: string; name: string; seed: number; signal: AbortSignal }

/** What its provider has of a sandbox after something was done, and which checkpoint that was said to have made. */
type Seen = { instances: TrueInstance[]; made: string | undefined; checkpoints: string[]; agents: number }

const runs = ({ instances: [one] }: Seen) => (one?.is === 'running' ? undefined : `it is ${one?.is ?? 'not there'}`)
const isMade = ({ made, checkpoints }: Seen) =>
  made !== undefined && checkpoints.includes(made) ? undefined : `there is no checkpoint ${made ?? 'named'}`
const isOver = ({ instances, agents }: Seen) =>
  instances.length + agents === 0 ? undefined : `${instances.length} instances and ${agents} processes of it are there`

/** What is not as it has to be at the provider when it was done. */
const MISSED: Record<Kind, (seen: Seen) => string | undefined> = {
  spawn: runs,
  resume: runs,
  snapshot: (seen) => runs(seen) ?? isMade(seen),
  pause: (seen) => (seen.instances[0]?.is === 'suspended' ? isMade(seen) : 'it does not sleep'),
  kill: isOver,
  destroy: (seen) =>
    isOver(seen) ?? (seen.checkpoints.length > 0 ? `${seen.checkpoints.join(' and ')} are there` : undefined),
}

/** One sandbox, from its spawn to its end. */
class Guest {
  readonly #site: Site
  readonly #visit: Visit
  readonly #api: Api
  readonly #undone: Undone[] = []
  readonly #tags: string[] = []
  #sandboxId: string | undefined

  constructor(site: Site, visit: Visit) {
    this.#site = site
    this.#visit = visit
    const webs = site.webs.map(({ url }) => url)
    this.#api = new Api({ webs, token: site.token, diary: new Diary() }, new Random(`${visit.seed} ${visit.name}`))
  }

  async run(last: 'kill' | 'destroy'): Promise<Undone[]> {
    let goesOn = await this.#do('spawn')
    for (const step of COURSES[last]) {
      if (!goesOn) return this.#undone
      goesOn = await (step === 'execute' ? this.#execute() : this.#do(step))
    }
    // So that there is a process to be ended.
    if (goesOn && last === 'kill') goesOn = await this.#beginLong()
    if (goesOn) await this.#do(last)
    return this.#undone
  }

  /** Whether it has settled, well or not: behind what has not, everything else would only wait. */
  async #do(kind: Kind): Promise<boolean> {
    const { backend } = this.#visit
    const isSpawn = kind === 'spawn'
    const answer = await this.#ask(kind, isSpawn ? '' : `/${kind}`, isSpawn ? { backend } : {})
    const operation = answer?.body.operation
    if (!answer || answer.status === 202 || !operation) return this.#missed(kind, answer)
    this.#sandboxId = operation.sandbox_id
    if (operation.status !== 'succeeded' || operation.outcome !== 'done') {
      this.#missed(kind, answer)
      return !isSpawn
    }
    const missed = MISSED[kind](await this.#see(operation.checkpoint ?? undefined))
    if (missed !== undefined) this.#say(`${kind} is said to be done, and ${missed}`)
    return true
  }

  async #execute(): Promise<boolean> {
    const plan = this.#plan(SHORT_LINES)
    const answer = await this.#ask('execute', '/executions', { command: this.#commandOf(plan) })
    const execution = answer?.body.execution
    if (!answer || answer.status === 202 || execution?.status !== 'succeeded') return this.#missed('execute', answer)
    const printed = outputOf(plan).length
    if (execution.output_bytes !== printed)
      this.#say(`execute has succeeded, and of ${printed} bytes it has ${execution.output_bytes}`)
    return true
  }

  async #beginLong(): Promise<boolean> {
    const plan = this.#plan(LONG_LINES)
    const answer = await this.#ask('execute', '/executions', { command: this.#commandOf(plan) }, false)
    const until = Date.now() + STEP_MS
    while (answer?.told && Date.now() < until) {
      const { agents } = await seeTruth(this.#site)
      if (agents.some(({ tag }) => tag === plan.tag)) return true
      await sleep(LOOK_MS, undefined, { signal: this.#visit.signal })
    }
    return this.#missed('execute', answer)
  }

  async #ask(kind: Kind | 'execute', route: string, body: object, waits = true): Promise<Answer | undefined> {
    const { name, signal } = this.#visit
    const asked = { key: `${name}-${kind}-${this.#tags.length}`, kind, sandboxId: this.#sandboxId }
    const path = `/v1/sandboxes${this.#sandboxId ? `/${this.#sandboxId}` : ''}${route}${waits ? `?wait=${WAIT}` : ''}`
    const enough = AbortSignal.any([signal, AbortSignal.timeout(STEP_MS)])
    for (let answer: Answer | undefined; ; ) {
      answer = (await this.#api.ask(asked, path, body, enough)) ?? answer
      signal.throwIfAborted()
      if (enough.aborted || !waits || answer?.status !== 202) return answer
    }
  }

  /** At once, and before anybody tidies up. */
  async #see(checkpointId: string | undefined): Promise<Seen> {
    const [truth, rows] = await Promise.all([
      seeTruth(this.#site),
      this.#site.administer<{ id: string; provider_ref: string }>(
        'select id, provider_ref from sandman.checkpoints where sandbox_id = $1',
        [this.#sandboxId],
      ),
    ])
    const there = new Set(truth.checkpoints.map(({ ref }) => ref))
    return {
      instances: truth.instances.filter(({ sandboxId }) => sandboxId === this.#sandboxId),
      made: rows.find(({ id }) => id === checkpointId)?.provider_ref,
      checkpoints: rows.map(({ provider_ref }) => provider_ref).filter((ref) => there.has(ref)),
      agents: truth.agents.filter(({ tag }) => this.#tags.includes(tag)).length,
    }
  }

  #plan(lines: number): AgentPlan {
    const tag = `${this.#visit.name}-${this.#tags.length + 1}`
    this.#tags.push(tag)
    return { tag, lines, exitCode: 0 }
  }

  #commandOf(plan: AgentPlan): string[] {
    return commandOf(plan, startsFolder(this.#site))
  }

  #missed(kind: string, answer: Answer | undefined): false {
    const { operation, execution, error_type, message } = answer?.body ?? {}
    const { status, outcome } = operation ?? execution ?? {}
    const became = [answer?.status ?? 'no answer', status, outcome, error_type, message].filter((word) => word != null)
    this.#say(`${kind} (${became.join(', ')})`)
    return false
  }

  #say(says: string): void {
    this.#undone.push({ sandboxId: this.#sandboxId, says: `on ${this.#visit.backend}: ${says}` })
  }
}
