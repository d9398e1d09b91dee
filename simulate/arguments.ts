import { readOptions, refuse } from '../proof/report.ts'

const USAGE = `usage: npm run simulate -- [--seed N | --seeds A..B] [--piece k/n] [--steps N] [--trace] [--json]

  --seed N      one run, exactly as it was
  --seeds A..B  these; without either, 1..50
  --piece k/n   of them, the k-th of n parts, for n machines at once
  --steps N     how much is asked for in a run (60): fewer may show the same in less
  --trace       prints everything that happens; for one seed; on stderr with --json
  --json        prints one object instead of a table`

type Arguments = { seeds: number[]; steps: number | undefined; trace: boolean; json: boolean }

const USUAL = [1, 50] as const
const SEEDS_MAX = 1_000_000

export function readArguments(): Arguments {
  const given = readOptions(USAGE, {
    seed: { type: 'string' },
    seeds: { type: 'string' },
    piece: { type: 'string' },
    steps: { type: 'string' },
    trace: { type: 'boolean', default: false },
    json: { type: 'boolean', default: false },
  })
  const { seed, seeds, piece, steps, trace, json } = given
  if (seed !== undefined && seeds !== undefined) refuse(USAGE, '--seed and --seeds do not go together.')
  const [first, last] = seed === undefined ? readRange(seeds) : [readNumber('--seed', seed), readNumber('--seed', seed)]
  const all = Array.from({ length: last - first + 1 }, (_, nth) => first + nth)
  const picked = piece === undefined ? all : pick(all, piece)
  if (picked.length === 0) refuse(USAGE, `--piece ${piece} has no seeds: of ${all.length} there is none left for it.`)
  if (trace && picked.length > 1) refuse(USAGE, '--trace is for one seed: say which with --seed.')
  const most = steps === undefined ? undefined : readNumber('--steps', steps)
  if (most === 0) refuse(USAGE, '--steps 0 asks for nothing: it must be 1 or more.')
  return { seeds: picked, steps: most, trace, json }
}

function readRange(given: string | undefined): readonly [number, number] {
  if (given === undefined) return USUAL
  const [, first, last] = /^(\d{1,9})\.\.(\d{1,9})$/.exec(given) ?? []
  if (first === undefined || last === undefined)
    return refuse(USAGE, `--seeds must be such as 1..1000, and not "${given}".`)
  const range = [Number(first), Number(last)] as const
  if (range[1] < range[0]) refuse(USAGE, `--seeds ${given} ends before it begins.`)
  if (range[1] - range[0] >= SEEDS_MAX) refuse(USAGE, `--seeds ${given} are more than ${SEEDS_MAX}.`)
  return range
}

function readNumber(name: string, given: string): number {
  if (/^\d{1,9}$/.test(given)) return Number(given)
  return refuse(USAGE, `${name} must be a number such as 7, and not "${given}".`)
}

function pick(all: readonly number[], piece: string): number[] {
  const [, kth, of] = /^(\d{1,6})\/(\d{1,6})$/.exec(piece) ?? []
  const [k, n] = [Number(kth), Number(of)]
  if (!(k >= 1 && k <= n)) refuse(USAGE, `--piece must be such as 2/10, and not "${piece}".`)
  return all.filter((_seed, at) => at % n === k - 1)
}
