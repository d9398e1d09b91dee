import type { Random } from '../proof/random.ts'
import type { Options } from '../src/sandbox/judge.ts'
import type { Limits } from '../src/sandbox/limits.ts'

export type VerbKind = 'pause' | 'resume' | 'snapshot' | 'kill' | 'destroy'

/** What somebody wants. `which` picks one of the sandboxes, or executions, that are known by then. */
export type Wish = { afterMs: number; waitMs: number; key: string | undefined; which: number } & (
  | { is: 'spawn'; backend: string; spec: Record<string, unknown>; ttl: Limits; isFromSnapshot: boolean }
  | { is: 'adopt'; backend: string; isAsleep: boolean }
  | { is: 'verb'; kind: VerbKind; options: Options }
  | {
      is: 'execute'
      command: string[] | undefined
      options: { if_suspended?: 'refuse'; if_lost?: 'respawn' }
      deadlineMs: number
      silenceMs: number | undefined
      outputBytesMax: number
    }
  | { is: 'cancel' }
  | { is: 'touch' }
  /** The same as the last one, once more, with its key. */
  | { is: 'again' }
)

type Part = Omit<Wish, 'afterMs' | 'waitMs' | 'key' | 'which'> & { is: Wish['is'] }

/** What one user is going to ask for, one after the other. */
export function drawWishes(random: Random, user: string, count: number, backends: readonly string[]): Wish[] {
  const pace = random.pick([500, 5_000, 20_000])
  return Array.from({ length: count }, (_, nth) => {
    const common = {
      afterMs: random.between(0, pace),
      waitMs: random.chance(0.5) ? random.between(1_000, 60_000) : 0,
      key: random.chance(0.7) ? `${user} ${nth}` : undefined,
      which: random.integer(0, 1_000_000),
    }
    const part = nth === 0 ? drawSpawn(random, backends) : drawPart(random, backends)
    return { ...common, ...part } as Wish
  })
}

function drawPart(random: Random, backends: readonly string[]): Part {
  switch (random.weighted({ spawn: 9, adopt: 2, verb: 55, execute: 24, cancel: 5, touch: 2, again: 4 })) {
    case 'spawn':
      return drawSpawn(random, backends)
    case 'adopt':
      return { is: 'adopt', backend: random.pick(backends), isAsleep: random.chance(0.3) } as Part
    case 'verb':
      return drawVerb(random)
    case 'execute':
      return drawExecution(random)
    case 'cancel':
      return { is: 'cancel' }
    case 'touch':
      return { is: 'touch' }
    case 'again':
      return { is: 'again' }
  }
}

function drawSpawn(random: Random, backends: readonly string[]): Part {
  const hasAgent = random.chance(0.5)
  const seconds = (least: number, most: number) => random.integer(least, most) * 1_000
  const spec = {
    ...(hasAgent && { agent: { command: ['agent'] } }),
    ...(random.chance(0.3) && {
      wake: { commands: ['start the server'], ...(random.chance(0.5) && { previewPort: 3_000 }) },
    }),
  }
  const ttl: Limits = {
    ...(random.chance(0.3) && { idleMs: seconds(20, 240) }),
    ...(random.chance(0.15) && { hardMs: seconds(60, 900) }),
    ...(random.chance(0.2) && { retentionMs: seconds(30, 600) }),
    ...(random.chance(0.2) && { ifUnsupported: 'kill' }),
  }
  return { is: 'spawn', backend: random.pick(backends), spec, ttl, isFromSnapshot: random.chance(0.2) } as Part
}

function drawVerb(random: Random): Part {
  const kind = random.weighted({ pause: 36, resume: 36, snapshot: 12, kill: 6, destroy: 5 })
  const options: Options = {
    ...(kind === 'pause' && random.chance(0.3) && { if_unsupported: 'kill' }),
    ...(kind === 'pause' && random.chance(0.5) && { if_busy: random.pick(['wait', 'interrupt'] as const) }),
    ...(kind === 'resume' && random.chance(0.5) && { if_lost: 'respawn' }),
    ...(kind === 'resume' && random.chance(0.1) && { hooks: 'skip' }),
    ...(kind === 'snapshot' && random.chance(0.3) && { name: `copy-${random.integer(1, 9)}` }),
  }
  return { is: 'verb', kind, options } as Part
}

function drawExecution(random: Random): Part {
  return {
    is: 'execute',
    command: random.chance(0.75) ? ['work'] : undefined,
    options: {
      ...(random.chance(0.15) && { if_suspended: 'refuse' }),
      ...(random.chance(0.4) && { if_lost: 'respawn' }),
    },
    deadlineMs: random.integer(5, 180) * 1_000,
    silenceMs: random.chance(0.3) ? random.integer(5, 40) * 1_000 : undefined,
    outputBytesMax: random.chance(0.15) ? random.integer(1, 300) : 1 << 20,
  } as Part
}
