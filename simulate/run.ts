import type { Db } from '../src/db/pool.ts'
import { checkAll } from './checks/all.ts'
import type { FaultName } from './faults.ts'
import type { Finding } from './findings.ts'
import type { Ground } from './ground.ts'
import { prepareDatabase } from './prepare.ts'
import { settle } from './settle.ts'
import { Told } from './told.ts'
import { printTold } from './trace.ts'
import { User } from './user.ts'
import { drawWishes } from './wishes.ts'
import { drawWorkers } from './workers.ts'
import { type Sabotage, World } from './world.ts'

/** How many things are asked for in a run, unless it is told otherwise. */
const STEPS = 60
const USERS = 6
/** How long users may take, in the time of the simulation. */
const ASKING_MS_MAX = 1_800_000
/** Of statements, every so many all that must always be true is looked at. */
const CHECK_EVERY = 150
const STORY_MAX = 40

type RunOptions = {
  seed: number
  steps?: number | undefined
  print?: ((line: string) => void) | undefined
  sabotage?: Sabotage | undefined
}

export type RunResult = {
  seed: number
  hash: string
  virtualMs: number
  happenings: number
  statements: number
  operations: number
  executions: number
  faults: Partial<Record<FaultName, number>>
  findings: (Finding & { story: string[] })[]
}

/** One run, from an empty fleet until everything has settled, and what was found. */
export async function run({ client, db }: Omit<Ground, 'close'>, options: RunOptions): Promise<RunResult> {
  const { seed, steps = STEPS, print, sabotage } = options
  await prepareDatabase(client)
  const world = new World({ seed, client, print, ...(sabotage && { sabotage }) })
  const { engine, conduct, random, findings, database } = world
  const told = new Told(findings)
  const workers = drawWorkers(world)
  const names = [...world.backends.keys()]
  const users = Array.from({ length: USERS }, (_, nth) => {
    const name = `user ${nth + 1}`
    const wishes = drawWishes(random.fork(name), name, Math.ceil(steps / USERS), names)
    return new User(world, name, wishes, told)
  })
  engine.fate = (_happening, life) => {
    if (conduct.happens('crash')) return 'dies'
    const worker = workers.find((place) => place.life === life)
    if (!worker) return 'lives'
    if (!database.isHeldBy(life) && conduct.happens('freeze')) {
      life.frozenUntilMs = engine.nowMs + random.between(500, 90_000)
      world.trace.tell(
        engine.elapsedMs,
        life.name,
        `stands still until ${(engine.elapsedMs + life.frozenUntilMs - engine.nowMs) / 1_000} s`,
      )
    }
    if (conduct.happens('stop')) worker.stop()
    return 'lives'
  }
  for (const someone of [...workers, ...users]) someone.start()

  let checked = 0
  const isOver = () => users.every(({ isDone }) => isDone) || !findings.isEmpty
  while (!isOver() && engine.elapsedMs < ASKING_MS_MAX) {
    await engine.runUntil(engine.nowMs + 1_000, isOver)
    if (database.statements - checked < CHECK_EVERY) continue
    checked = database.statements
    await checkAll({ world, db, told }, 'always')
  }
  if (findings.isEmpty) await settle({ world, db, told, workers, users })
  const { operations, executions } = await count(db)
  return {
    seed,
    hash: world.trace.digest(),
    virtualMs: engine.elapsedMs,
    happenings: engine.steps,
    statements: database.statements,
    operations,
    executions,
    faults: world.faults.counts,
    findings: findings.all.map((finding) => ({
      ...finding,
      story: world.trace.about([finding.about], STORY_MAX).map(printTold),
    })),
  }
}

async function count(db: Db): Promise<{ operations: number; executions: number }> {
  const all = async (table: 'operations' | 'executions') =>
    Number(
      (
        await db
          .selectFrom(table)
          .select(({ fn }) => fn.countAll().as('count'))
          .executeTakeFirst()
      )?.count,
    )
  return { operations: await all('operations'), executions: await all('executions') }
}
