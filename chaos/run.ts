import { mkdir } from 'node:fs/promises'
import { setTimeout as sleep } from 'node:timers/promises'
import { Random } from '../proof/random.ts'
import { openDb } from '../src/db/pool.ts'
import { Events } from '../src/events.ts'
import { Api } from './api.ts'
import type { Evidence, Flaw } from './checks/flaw.ts'
import { findFlaws } from './checks.ts'
import { type Known, runClient } from './client.ts'
import { Diary } from './diary.ts'
import { askInTheQuiet } from './epilogue.ts'
import { Inflictor } from './inflict.ts'
import { countOpen, type LedgerRows, readLedger } from './ledger.ts'
import type { ChaosOptions } from './options.ts'
import { planFaults } from './plan.ts'
import { recoveryOf } from './recovery.ts'
import type { Result } from './result.ts'
import { openSite, type Site } from './site.ts'
import { openFleet, sweepUp } from './sweep.ts'
import { seeTruth, startsFolder } from './truth.ts'

/** Once there is quiet, whoever was not answered by then never will be. */
const LAST_ANSWERS_MS = 60_000
const LOOK_MS = 500
const PROGRESS_MS = 10_000

/** A fleet, what was done to it, and what has become of it. */
export type Chaos = {
  site: Site
  /** All that there is to be seen now: asked again, it may be something else. */
  gather(): Promise<Evidence>
  judge(evidence: Evidence): Promise<Result>
}

/** Starts a fleet, troubles it, and lets it settle. Whoever calls closes the site, also when this fails. */
export async function runChaos(
  options: ChaosOptions,
  { signal, say, onOpen }: { signal: AbortSignal; say: (progress: string) => void; onOpen: (site: Site) => void },
): Promise<Chaos> {
  const queues = options.queues === 'redis' ? 'Redis' : 'no Redis'
  say(`Starting Postgres, ${queues}, a provider, ${options.webs} web processes, ${options.workers} workers`)
  const site = await openSite(options)
  onOpen(site)
  signal.throwIfAborted()
  await mkdir(startsFolder(site))
  const diary = new Diary()
  const inflictor = new Inflictor(site, signal)
  const { fallen, undone, ...course } = await trouble(site, options, { diary, inflictor, signal, say })
  return {
    site,
    async gather() {
      const handle = openDb({ databaseUrl: site.databaseUrl, applicationName: 'chaos', events: new Events() })
      try {
        const [ledger, truth] = await Promise.all([readLedger(handle.db), seeTruth(site)])
        return { diary, ledger, truth, undone, fallen }
      } finally {
        await handle.close()
      }
    },
    async judge({ ledger, ...evidence }) {
      const flaws = findFlaws({ ledger, ...evidence })
      const { told } = diary
      const { inflicted } = inflictor
      const provider = await site.provider.counted()
      const asked = onlyAskedBy(diary, ledger)
      const recovery = recoveryOf(inflicted, { operations: asked.operations, told })
      const histories = await tellOf(site, flaws)
      return { options, diary, ...asked, inflicted, provider, flaws, histories, recovery, ...course }
    },
  }
}

/** What was asked for while there were faults, and not in the quiet afterwards. */
function onlyAskedBy({ told }: Diary, { operations, executions }: LedgerRows) {
  const named = new Set(told.map(({ id }) => id))
  const isNamed = ({ id }: { id: string }) => named.has(id)
  return { operations: operations.filter(isNamed), executions: executions.filter(isNamed) }
}

/** As `sandman why` does. */
async function tellOf(site: Site, flaws: readonly Flaw[]): Promise<Map<string, string>> {
  const fleet = openFleet(site)
  const histories = new Map<string, string>()
  try {
    for (const id of new Set(flaws.flatMap(({ sandboxId }) => sandboxId || []))) {
      const why = await fleet.why(id).catch(() => undefined) // what has leaked may be of nobody
      const story = why?.story.map(({ at, text }) => `${at.toISOString()} ${text}`)
      if (why) histories.set(id, [why.answer, ...(story ?? [])].join('\n'))
    }
    return histories
  } finally {
    await fleet.close()
  }
}

type Parts = { diary: Diary; inflictor: Inflictor; signal: AbortSignal; say: (progress: string) => void }

async function trouble(site: Site, options: ChaosOptions, { diary, inflictor, signal, say }: Parts) {
  const { seed, forMs, clients } = options
  const planned = planFaults(options)
  say(`Chaos for ${forMs / 1_000} s with seed ${seed}: ${planned.length} faults, ${clients} clients`)
  const quiet = new AbortController()
  const givenUp = new AbortController()
  const known: Known = []
  const startedAt = Date.now()
  site.provider.setWeather(true, seed)
  const asking = Array.from({ length: clients }, (_, nth) => {
    const random = new Random(`${seed} client ${nth}`)
    const api = new Api({ webs: site.webs.map(({ url }) => url), token: site.token, diary }, random)
    const folder = startsFolder(site)
    const [stopped, over] = [quiet.signal, givenUp.signal]
    return runClient({ nth, api, random, known, startsFolder: folder, stopped, givenUp: over })
  })
  const progress = setInterval(() => say(tellProgress(diary, inflictor, startedAt)), PROGRESS_MS)
  try {
    for (const fault of planned) {
      await sleep(Math.max(0, startedAt + fault.atMs - Date.now()), undefined, { signal })
      inflictor.begin(fault)
    }
    await sleep(Math.max(0, startedAt + forMs - Date.now()), undefined, { signal })
    say('Quiet: faults have ended, and everything is up')
    site.provider.setWeather(false, seed)
    quiet.abort()
    await inflictor.healed()
    const processes = [...site.workers, ...site.webs.map(({ process }) => process)]
    await Promise.all(processes.map(({ ready }) => ready))
    const quietAt = Date.now()
    const lastAnswers = setTimeout(() => givenUp.abort(), LAST_ANSWERS_MS)
    await Promise.all(asking)
    clearTimeout(lastAnswers)
    await settle(site, quietAt + options.settleMs, signal)
    const settledAfterMs = Date.now() - quietAt
    say(`Settled ${Math.round(settledAfterMs / 100) / 10} s later; asking for each thing once more, in the quiet`)
    const undone = await askInTheQuiet(site, seed, signal)
    await settle(site, Date.now() + options.settleMs, signal)
    say('Stopping the workers, and sweeping')
    const unstopped = await site.stopWorkers()
    const fleet = openFleet(site)
    const swept = await sweepUp(site, fleet).finally(() => fleet.close())
    const fallen = [...processes.flatMap(({ crashes }) => crashes), ...unstopped]
    return { planned, settledAfterMs, undone, fallen, swept }
  } finally {
    clearInterval(progress)
    quiet.abort()
    givenUp.abort()
    await inflictor.healed()
  }
}

async function settle(site: Site, until: number, signal: AbortSignal): Promise<void> {
  while (Date.now() < until && (await countOpen(site.databaseUrl)) > 0) await sleep(LOOK_MS, undefined, { signal })
}

function tellProgress(diary: Diary, { inflicted }: Inflictor, startedAt: number): string {
  const seconds = Math.round((Date.now() - startedAt) / 1_000)
  return `${seconds} s: ${inflicted.length} faults, ${diary.accepted.size} operations and executions accepted`
}
