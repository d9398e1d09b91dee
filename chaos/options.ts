import { readOptions, refuse } from '../proof/report.ts'
import { parseDurationMs } from '../src/duration.ts'
import { FAULTS, type FaultKind } from './plan.ts'

const SEEDS = 1_000_000_000
const DAY_MS = 86_400_000

export type ChaosOptions = {
  forMs: number
  seed: number
  clients: number
  workers: number
  webs: number
  queues: 'redis' | 'postgres'
  killEveryMs: number
  /** Only these. */
  faults: readonly FaultKind[]
  /** How long it may take until everything has settled, once there is quiet. */
  settleMs: number
}

export const DEFAULTS: Omit<ChaosOptions, 'seed'> = {
  forMs: 60_000,
  clients: 20,
  workers: 6,
  webs: 2,
  queues: 'redis',
  killEveryMs: 1_000,
  faults: Object.keys(FAULTS) as FaultKind[],
  settleMs: 240_000,
}

const USAGE = `Usage: npm run chaos -- [options]
  --for <60s>            how long faults go on
  --seed <number>        which fault comes when, and what clients ask for; printed, to be given again
  --clients <20>         how many ask at a time
  --workers <6>          worker processes
  --queues <redis>       or postgres
  --kill-every <1s>      a worker is killed so often
  --faults <a,b>         only these: ${Object.keys(FAULTS).join(', ')}
  --settle <240s>        how long it may take until all has settled, afterwards
  --keep-logs            also when all is well
  --json                 one object instead of a table`

export function readChaosOptions(): ChaosOptions & { json: boolean; keepLogs: boolean } {
  const text = { type: 'string' } as const
  const given = readOptions(USAGE, {
    for: text,
    seed: text,
    clients: text,
    workers: text,
    queues: text,
    'kill-every': text,
    faults: text,
    settle: text,
    json: { type: 'boolean', default: false },
    'keep-logs': { type: 'boolean', default: false },
  })
  const queues = given.queues ?? DEFAULTS.queues
  if (queues !== 'redis' && queues !== 'postgres') return refuse(USAGE, '--queues is redis or postgres.')
  return {
    forMs: duration('--for', given.for, DEFAULTS.forMs),
    seed: whole('--seed', given.seed, Math.floor(Math.random() * SEEDS), [0, SEEDS - 1]),
    clients: whole('--clients', given.clients, DEFAULTS.clients, [1, 1_000]),
    webs: DEFAULTS.webs,
    workers: whole('--workers', given.workers, DEFAULTS.workers, [1, 100]),
    queues,
    killEveryMs: duration('--kill-every', given['kill-every'], DEFAULTS.killEveryMs),
    faults: kinds(given.faults),
    settleMs: duration('--settle', given.settle, DEFAULTS.settleMs),
    json: given.json === true,
    keepLogs: given['keep-logs'] === true,
  }
}

function kinds(given: string | undefined): readonly FaultKind[] {
  const named = given?.split(',') ?? DEFAULTS.faults
  const unknown = named.find((kind) => !Object.hasOwn(FAULTS, kind))
  return unknown === undefined ? (named as FaultKind[]) : refuse(USAGE, `There is no fault called ${unknown}.`)
}

function duration(name: string, given: string | undefined, fallback: number): number {
  const ms = given === undefined ? fallback : parseDurationMs(given)
  if (ms !== undefined && ms > 0 && ms <= DAY_MS) return ms
  return refuse(USAGE, `${name} is a duration above zero, and of a day at most, such as 60s or 5m.`)
}

function whole(
  name: string,
  given: string | undefined,
  fallback: number,
  [least, most]: readonly [number, number],
): number {
  if (given === undefined) return fallback
  if (/^\d{1,9}$/.test(given) && Number(given) >= least && Number(given) <= most) return Number(given)
  return refuse(USAGE, `${name} is a whole number from ${least} to ${most}.`)
}
