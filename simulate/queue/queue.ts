import type { QueueName } from '../../src/queues/names.ts'
import type { Conduct } from '../conduct.ts'
import type { Engine, Happening } from '../engine.ts'
import type { Life } from '../life.ts'

export type Backoff = { type: string; delay: number; jitter?: number }

export type SimulatedJob = {
  id: string
  data: unknown
  madeAtMs: number
  delayMs: number
  attempts: number
  attemptsMade: number
  backoff: Backoff
  /** Rings with the same one fold. */
  dedupeId: string | undefined
  /** It was made by a schedule, which makes the next when this one is taken. */
  schedule: string | undefined
  state: 'waiting' | 'active' | 'delayed'
  /** Of whoever works on it. */
  token: string | undefined
  lockedUntilMs: number
}

/** Somebody who takes jobs. */
export type Taker = {
  life: Life
  concurrency: number
  lockMs: number
  active: number
  isClosing: boolean
  begin(job: SimulatedJob, token: string): void
}

type Schedule = {
  id: string
  everyMs: number
  nextMs: number
  data: unknown
  attempts: number
  backoff: Backoff
  coming: Happening
}
type Added = Pick<SimulatedJob, 'data' | 'attempts' | 'backoff' | 'dedupeId'> & { schedule?: string; delayMs?: number }

/** One queue, as BullMQ keeps it: what is told to it takes effect at once. How long the way there is, is for who tells it. */
export class SimulatedQueue {
  readonly name: QueueName
  readonly #engine: Engine
  readonly #conduct: Conduct
  readonly jobs = new Map<string, SimulatedJob>()
  readonly schedules = new Map<string, Schedule>()
  /** Rings that came while a job with the same key was being worked on: one of each rings again after it. */
  readonly #kept = new Map<string, Added>()
  readonly takers = new Set<Taker>()
  #made = 0

  constructor(name: QueueName, engine: Engine, conduct: Conduct) {
    this.name = name
    this.#engine = engine
    this.#conduct = conduct
  }

  add(added: Added): void {
    const { dedupeId } = added
    const equal = dedupeId === undefined ? undefined : this.#find(dedupeId)
    if (equal) {
      if (equal.state === 'active') this.#kept.set(dedupeId as string, added)
      return
    }
    const id = `${this.name}:${++this.#made}`
    const { delayMs = 0, schedule } = added
    const job: SimulatedJob = {
      ...added,
      ...{ id, delayMs, schedule, madeAtMs: this.#engine.nowMs, attemptsMade: 0, token: undefined, lockedUntilMs: 0 },
      state: 'waiting',
    }
    this.jobs.set(id, job)
    if (delayMs > 0) this.#delay(job, delayMs)
    else this.#offer(job)
  }

  #find(dedupeId: string): SimulatedJob | undefined {
    for (const job of this.jobs.values()) if (job.dedupeId === dedupeId) return job
    return undefined
  }

  #delay(job: SimulatedJob, ms: number): void {
    job.state = 'delayed'
    job.token = undefined
    this.#engine.after(ms, `${job.id} has waited`, () => {
      if (this.jobs.get(job.id) !== job || job.state !== 'delayed') return
      job.state = 'waiting'
      this.#offer(job)
    })
  }

  #offer(job: SimulatedJob): void {
    const lateMs = this.#conduct.happens('delivery_late') ? this.#engine.random.between(1_000, 30_000) : 0
    this.#engine.after(lateMs + this.#conduct.queueMs(), `${job.id} is due`, () => this.#give(job))
  }

  /** To one who has room, by chance. Who has not asks when it has. */
  #give(job: SimulatedJob): void {
    if (this.jobs.get(job.id) !== job || job.state !== 'waiting') return
    const free = [...this.takers].filter(({ active, concurrency, isClosing }) => !isClosing && active < concurrency)
    if (free.length === 0) return
    const taker = this.#engine.random.pick(free)
    const token = `${job.id}/${this.#engine.steps}`
    job.state = 'active'
    job.token = token
    job.lockedUntilMs = this.#engine.nowMs + taker.lockMs
    taker.active++
    if (job.schedule !== undefined) this.#goOn(job.schedule)
    this.#engine.reach(taker.life, this.#conduct.queueMs(), `${job.id} ${JSON.stringify(job.data)} is delivered`, () =>
      taker.begin(job, token),
    )
  }

  /** Somebody has room, or has come. */
  offerAll(): void {
    for (const job of this.jobs.values()) if (job.state === 'waiting') this.#offer(job)
  }

  /** Whether it was still this one's. */
  holds(job: SimulatedJob, token: string): boolean {
    return this.jobs.get(job.id) === job && job.state === 'active' && job.token === token
  }

  renew(job: SimulatedJob, token: string, lockMs: number): boolean {
    if (!this.holds(job, token)) return false
    job.lockedUntilMs = this.#engine.nowMs + lockMs
    return true
  }

  finish(job: SimulatedJob, token: string): boolean {
    if (!this.holds(job, token)) return false
    this.jobs.delete(job.id)
    const kept = job.dedupeId === undefined ? undefined : this.#kept.get(job.dedupeId)
    if (kept) {
      this.#kept.delete(job.dedupeId as string)
      this.add(kept)
    }
    return true
  }

  /** Costs an attempt. The last one ends it. */
  fail(job: SimulatedJob, token: string, isFinal: boolean): boolean {
    if (!this.holds(job, token)) return false
    job.attemptsMade++
    if (isFinal || job.attemptsMade >= job.attempts) return this.finish(job, token)
    const { type, delay, jitter = 0 } = job.backoff
    const ms = type === 'fixed' ? delay : delay * 2 ** (job.attemptsMade - 1)
    this.#delay(job, Math.max(1, ms * (1 - jitter * this.#engine.random.next())))
    return true
  }

  delay(job: SimulatedJob, token: string, untilMs: number): boolean {
    if (!this.holds(job, token)) return false
    this.#delay(job, Math.max(1, untilMs - this.#engine.nowMs))
    return true
  }

  handBack(job: SimulatedJob, token: string): boolean {
    if (!this.holds(job, token)) return false
    job.state = 'waiting'
    job.token = undefined
    this.#offer(job)
    return true
  }

  /** Jobs whose workers are not heard of any more are given to others. */
  takeBackStalled(): void {
    for (const job of this.jobs.values()) {
      if (job.state !== 'active' || job.lockedUntilMs > this.#engine.nowMs) continue
      job.state = 'waiting'
      job.token = undefined
      this.#offer(job)
    }
  }

  schedule(id: string, everyMs: number, template: Omit<Schedule, 'id' | 'everyMs' | 'nextMs' | 'coming'>): void {
    const known = this.schedules.get(id)
    if (known) known.coming.isCancelled = true
    this.#plan({ ...template, id, everyMs, nextMs: this.#engine.nowMs })
  }

  unschedule(id: string): void {
    const known = this.schedules.get(id)
    if (known) known.coming.isCancelled = true
    this.schedules.delete(id)
  }

  #plan(planned: Omit<Schedule, 'coming'>): void {
    const { id, data, attempts, backoff } = planned
    const coming = this.#engine.after(planned.nextMs - this.#engine.nowMs, `schedule ${id}`, () =>
      this.add({ data, attempts, backoff, dedupeId: undefined, schedule: id }),
    )
    this.schedules.set(id, { ...planned, coming })
  }

  #goOn(id: string): void {
    const known = this.schedules.get(id)
    if (known)
      this.#plan({ ...known, nextMs: Math.max(known.nextMs, this.#engine.nowMs - known.everyMs) + known.everyMs })
  }

  /** Everything is forgotten, as if it had never been. */
  flush(): void {
    this.jobs.clear()
    this.#kept.clear()
    for (const { coming } of this.schedules.values()) coming.isCancelled = true
    this.schedules.clear()
  }
}
