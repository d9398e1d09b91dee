import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../proof/random.ts'
import type { Kind } from '../src/sandbox/judge.ts'
import { commandOf, planAgent } from './agents.ts'
import type { Api } from './api.ts'

/** Sandboxes that any client knows of: most ask about their own, and some about somebody else's. */
export type Known = { sandboxId: string; owner: number }[]

type ClientOptions = {
  nth: number
  api: Api
  random: Random
  known: Known
  /** Where agents write down that they were started. */
  startsFolder: string
  /** No new requests. */
  stopped: AbortSignal
  /** And no more tries of those that were made. */
  givenUp: AbortSignal
}

const OWN_MAX = 2
const OTHERS_SHARE = 0.15
const THINKS_MS = [50, 900] as const
const WAITS_SHARE = 0.4

const ACTIONS = {
  execute: 30,
  pause: 18,
  interrupt: 6,
  pauseWhenIdle: 4,
  resume: 18,
  snapshot: 8,
  kill: 4,
  destroy: 8,
} as const

/** Somebody who makes sandboxes and uses them, without a thought of who else does. */
export async function runClient(options: ClientOptions): Promise<void> {
  const { nth, random, known, stopped } = options
  for (let count = 1; !stopped.aborted; count++) {
    const own = known.filter(({ owner }) => owner === nth)
    const among = random.chance(OTHERS_SHARE) && known.length > 0 ? known : own
    const chosen = among[random.below(among.length)]
    if (!chosen || own.length < OWN_MAX) await spawn(options, count)
    else await use(options, count, chosen.sandboxId)
    await sleep(random.between(...THINKS_MS), undefined, { signal: stopped }).catch(() => {})
  }
}

async function spawn({ nth, api, random, known, givenUp }: ClientOptions, count: number): Promise<void> {
  const asked = { key: `client-${nth}-${count}`, kind: 'spawn', sandboxId: undefined } as const
  const backend = random.pick(['local', 'e2b'])
  const answer = await api.ask(
    asked,
    `/v1/sandboxes${waiting(random)}`,
    { backend, metadata: { client: nth } },
    givenUp,
  )
  if (answer?.told) known.push({ sandboxId: answer.told.sandboxId, owner: nth })
}

async function use(options: ClientOptions, count: number, sandboxId: string): Promise<void> {
  const { nth, api, random, known, startsFolder, givenUp } = options
  const action = random.weighted(ACTIONS)
  const key = `client-${nth}-${count}`
  if (action === 'execute') {
    const command = commandOf(planAgent(key, random), startsFolder)
    const asked = { key, kind: 'execute', sandboxId, command } as const
    await api.ask(asked, `/v1/sandboxes/${sandboxId}/executions${waiting(random)}`, { command }, givenUp)
    return
  }
  const kind: Kind = action === 'interrupt' || action === 'pauseWhenIdle' ? 'pause' : action
  const body = action === 'interrupt' ? { if_busy: 'interrupt' } : action === 'pauseWhenIdle' ? { if_busy: 'wait' } : {}
  const answer = await api.ask(
    { key, kind, sandboxId },
    `/v1/sandboxes/${sandboxId}/${kind}${waiting(random)}`,
    body,
    givenUp,
  )
  // What is gone, or soon will be, is of no use any more, to whomever it belongs.
  const isOver = kind === 'destroy' || (kind === 'kill' && random.chance(0.5)) || answer?.status === 410
  const at = known.findIndex((one) => one.sandboxId === sandboxId)
  if (isOver && at !== -1) known.splice(at, 1)
}

function waiting(random: Random): string {
  return random.chance(WAITS_SHARE) ? `?wait=${Math.round(random.between(200, 5_000))}ms` : ''
}
