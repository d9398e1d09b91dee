import { say } from '../proof/report.ts'
import { describeError } from '../src/errors.ts'
import { readChaosOptions } from './options.ts'
import { print } from './print.ts'
import { isGood, summarize } from './result.ts'
import { runChaos } from './run.ts'
import type { Site } from './site.ts'

const EXIT = { good: 0, bad: 1, interrupted: 130 } as const

const options = readChaosOptions()
const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const)
  process.on(signal, () => {
    if (!interruption.signal.aborted) say('Ending: everything that was started is being stopped')
    interruption.abort()
  })

let site: Site | undefined
let keepLogs = false
try {
  const chaos = await runChaos(options, {
    signal: interruption.signal,
    say,
    onOpen(opened) {
      site = opened
    },
  })
  const result = await chaos.judge(await chaos.gather())
  const isAllWell = isGood(summarize(result))
  keepLogs = options.keepLogs || !isAllWell
  print(result, { asJson: options.json, logs: chaos.site.logs })
  process.exitCode = isAllWell ? EXIT.good : EXIT.bad
} catch (error) {
  if (interruption.signal.aborted) process.exitCode = EXIT.interrupted
  else {
    keepLogs = true
    process.exitCode = EXIT.bad
    process.stderr.write(`${describeError(error)}\n${(error as Error).stack}\nLogs are in ${site?.logs}\n`)
  }
} finally {
  await site?.close({ keepLogs })
}
process.exit()
