import type { Db } from '../src/db/pool.ts'
import { believe } from '../src/db/sweeps.ts'
import { checkAll } from './checks/all.ts'
import { databaseClock } from './database.ts'
import { epilogue } from './epilogue.ts'
import { Life } from './life.ts'
import type { Told } from './told.ts'
import type { User } from './user.ts'
import type { WorkerPlace } from './workers.ts'
import { FLEET, type World } from './world.ts'

const STEP_MS = 30_000
/** By then everything has come to rest, or something never will. */
const SETTLE_MS_MAX = 3_600_000
/** How long that is believed. */
const BELIEVE_MS = 3_600_000

/**
 * Nothing goes wrong any more, and nobody asks for anything. Everything has to come to rest by itself, and then to be as it should
 * be; and then a last user asks for everything once. Only where so much has vanished that the sweeper does not believe it, somebody says that it is true.
 */
export async function settle(parts: {
  world: World
  db: Db
  told: Told
  workers: WorkerPlace[]
  users: User[]
}): Promise<void> {
  const { world, db, told, workers } = parts
  const { conduct, findings } = world
  conduct.isWell = true
  for (const { life } of workers) if (life) life.frozenUntilMs = 0
  if (await comeToRest(parts)) {
    await epilogue({ world, told })
    if (findings.isEmpty) await comeToRest(parts)
  }
  if (!findings.isEmpty) return
  await checkAll({ world, db, told }, 'at rest')
  await checkAll({ world, db, told }, 'in the end')
}

/** Whether it has, in time. */
async function comeToRest({ world, db, told }: { world: World; db: Db; told: Told }): Promise<boolean> {
  const { engine, findings, sabotage } = world
  const operator = new Life('operator')
  const untilMs = engine.nowMs + (sabotage.settleMs ?? SETTLE_MS_MAX)
  for (let nth = 1; engine.nowMs < untilMs; nth++) {
    await engine.runUntil(engine.nowMs + STEP_MS)
    await checkAll({ world, db, told }, 'always')
    if (!findings.isEmpty) return false
    const left = await checkAll({ world, db, told }, 'at rest', { isTrial: true })
    if (left === 0) return true
    if (nth % 10 === 0) await believeAll(world, operator)
  }
  return false
}

async function believeAll({ database, backends, engine }: World, operator: Life): Promise<void> {
  void operator.do(async () => {
    for (const backend of backends.keys())
      await believe(database.db, { fleet: FLEET, backend, forMs: BELIEVE_MS, clock: databaseClock })
  })
  await engine.runUntil(engine.nowMs + 1_000)
}
