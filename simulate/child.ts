/**
 * A process that makes runs, one seed after the other, and tells its parent what came of each. Its own process, because time is not
 * what it was in there.
 */
import { openGround } from './ground.ts'
import { type RunResult, run } from './run.ts'
import { replaceTime } from './virtual-time.ts'
import type { Sabotage } from './world.ts'

/** Where everything that happens is printed. */
export type Trace = 'stdout' | 'stderr' | undefined

export type Order = {
  databaseUrl: string
  seeds: number[]
  steps?: number | undefined
  trace: Trace
  /** No more after the first with which something was found. */
  untilFound?: boolean | undefined
  sabotage?: string | undefined
}
export type Message = { result: RunResult } | { seed: number; failure: string }

const order = JSON.parse(process.argv[2] as string) as Order
const { trace } = order
const print = trace && ((line: string) => process[trace].write(`${line}\n`))
// Whoever reads the first lines only has seen enough.
process.stdout.on('error', () => process.exit())
// Said as the path of a module, because functions cannot be sent.
const sabotage =
  order.sabotage === undefined ? undefined : ((await import(order.sabotage)) as { sabotage: Sabotage }).sabotage

replaceTime()
const ground = await openGround(order.databaseUrl)
for (const seed of order.seeds) {
  try {
    const result = await run(ground, { seed, steps: order.steps, print, sabotage })
    tell({ result })
    if (order.untilFound && result.findings.length > 0) break
  } catch (error) {
    tell({ seed, failure: (error as Error).stack ?? String(error) })
  }
}
await ground.close()
process.disconnect?.()

function tell(message: Message): void {
  process.send?.(message)
}
