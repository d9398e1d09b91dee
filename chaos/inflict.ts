import os from 'node:os'
import { setTimeout as sleep } from 'node:timers/promises'
import { Redis } from 'ioredis'
import type { KeptProcess } from './kept-process.ts'
import type { FaultKind, PlannedFault } from './plan.ts'
import type { Site } from './site.ts'

/** A fault that was inflicted. Times are those of this machine's clock. */
export type Inflicted = {
  kind: FaultKind
  at: number
  /** When what was taken away was there again. */
  healedAt: number
  /** Operations that the worker was at work on when it was killed, or stopped. */
  held: string[]
  web?: number
}

/** On a machine that is slow to start them, workers would otherwise be killed before they have done anything. */
const WORKS_MS = 2_000
/** The database may be away just then, and then nobody knows. */
const ASK_MS = 500

/** What is being done to each part of a site: one thing at a time. */
export class Inflictor {
  readonly inflicted: Inflicted[] = []
  readonly #site: Site
  readonly #signal: AbortSignal
  readonly #busy = new Set<unknown>()
  /** Where workers are slow to start, those that are to be killed would leave none that could be stopped: these come first. */
  #postponed: PlannedFault[] = []
  readonly #underWay = new Set<Promise<void>>()

  /** When the signal comes, all that lasts is over at once. */
  constructor(site: Site, signal: AbortSignal) {
    this.#site = site
    this.#signal = signal
  }

  /** Begins it, and leaves out what is being done already; a stop is put off until it can be. */
  begin(fault: PlannedFault): void {
    const first = this.#postponed
    this.#postponed = []
    for (const each of [...first, fault])
      if (!this.#hasBegun(each) && each.kind === 'worker_stopped') this.#postponed.push(each)
  }

  #hasBegun(fault: PlannedFault): boolean {
    const part = this.#partOf(fault)
    if (part === undefined || this.#busy.has(part)) return false
    this.#busy.add(part)
    const work = this.#inflict(fault, part).finally(() => this.#busy.delete(part))
    // Whoever waits for all of them is told of one that failed.
    this.#underWay.add(work)
    void work.then(
      () => this.#underWay.delete(work),
      () => {},
    )
    return true
  }

  /** When everything that was taken away is there again. */
  async healed(): Promise<void> {
    while (this.#underWay.size > 0) await Promise.all(this.#underWay)
  }

  #partOf({ kind, which }: PlannedFault): unknown {
    const { workers, webs, redis, postgres, provider } = this.#site
    if (kind === 'worker_killed' || kind === 'worker_stopped') {
      // One that has only begun would be no loss; and when none is left, nothing happens that could go wrong.
      const working = workers.filter((worker) => worker.hasWorkedFor(WORKS_MS) && !this.#busy.has(worker))
      return working.length > 1 ? working[which % working.length] : undefined
    }
    if (kind === 'web_killed') return webs[which % webs.length]
    if (kind.startsWith('redis')) return redis
    return kind === 'provider_away' ? provider : postgres
  }

  async #inflict({ kind, lastsMs, signal }: PlannedFault, part: unknown): Promise<void> {
    const { site, held } = { site: this.#site, held: [] as string[] }
    const { redis, postgres, provider, webs } = site
    const fault: Inflicted = { kind, at: 0, healedAt: 0, held }
    switch (kind) {
      case 'worker_killed': {
        held.push(...(await this.#heldBy(part as KeptProcess)))
        fault.at = Date.now()
        await (part as KeptProcess).kill()
        break
      }
      case 'worker_stopped': {
        held.push(...(await this.#heldBy(part as KeptProcess)))
        fault.at = Date.now()
        ;(part as KeptProcess).signal('SIGSTOP')
        await this.#last(lastsMs)
        ;(part as KeptProcess).signal('SIGCONT')
        break
      }
      case 'web_killed': {
        fault.web = webs.indexOf(part as (typeof webs)[number])
        fault.at = Date.now()
        await (part as (typeof webs)[number]).process.kill()
        break
      }
      case 'redis_killed':
      case 'postgres_killed': {
        const server = kind === 'redis_killed' ? redis : postgres
        fault.at = Date.now()
        await server?.kill(signal)
        await this.#last(lastsMs)
        await server?.start()
        break
      }
      case 'redis_flushed':
        fault.at = Date.now()
        await flush(redis?.url as string)
        break
      case 'connections_cut':
        fault.at = Date.now()
        await site.administer(
          'select pg_terminate_backend(pid) from pg_stat_activity where pid <> pg_backend_pid() and datname is not null',
        )
        break
      case 'provider_away':
        fault.at = Date.now()
        provider.away(lastsMs)
        await this.#last(lastsMs)
        break
    }
    fault.healedAt = Date.now()
    this.inflicted.push(fault)
  }

  async #last(ms: number): Promise<void> {
    await sleep(ms, undefined, { signal: this.#signal }).catch(() => {})
  }

  /** A killed one tells nobody, so the ledger is asked directly before. */
  async #heldBy({ pid }: KeptProcess): Promise<string[]> {
    if (pid === undefined) return []
    const asking = this.#site
      .administer<{ id: string }>("select id from sandman.operations where status = 'active' and taken_by = $1", [
        `${os.hostname()}-${pid}`,
      ])
      .catch(() => [])
    const found = await Promise.race([asking, sleep(ASK_MS, [])])
    return found.map(({ id }) => id)
  }
}

async function flush(redisUrl: string): Promise<void> {
  const redis = new Redis(redisUrl, { lazyConnect: true, maxRetriesPerRequest: 1 })
  redis.on('error', () => {})
  await redis.flushall().finally(() => redis.disconnect())
}
