import { printJson, say } from '../proof/report.ts'
import { startPostgres } from '../proof/servers.ts'
import { exit } from '../src/cli/exits.ts'
import { Events } from '../src/events.ts'
import { migrateAll } from '../src/fleet/migrate.ts'
import { readArguments } from './arguments.ts'
import { printFindings, printSummary, summarize, verdict } from './report.ts'
import { administer, runSeeds } from './seeds.ts'

const TEMPLATE = 'simulate_template'
/** Between two lines that say how far it is. */
const SAY_EVERY = 25
const SAY_EVERY_MS = 15_000

const { seeds, steps, trace, json } = readArguments()
const interruption = new AbortController()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.once(signal, () => interruption.abort(signal))
process.stdout.on('error', (error: NodeJS.ErrnoException) => {
  if (error.code !== 'EPIPE') throw error
  interruption.abort('EPIPE') // whoever reads the first lines only has seen enough
})
const postgres = await startPostgres('simulate').catch((error: unknown) => {
  if (interruption.signal.aborted) process.exit(exit('interrupted')) // so was what makes it
  throw error
})
let done = 0
const progress = setInterval(() => say(`${done} of ${seeds.length} seeds`), SAY_EVERY_MS)
try {
  const postgresUrl = postgres.url.replace(/[^/]+$/, 'postgres')
  await administer(postgresUrl, `create database ${TEMPLATE}`)
  await migrateAll({ databaseUrl: postgresUrl.replace(/[^/]+$/, TEMPLATE), redisUrl: undefined }, new Events())
  const beganAt = performance.now()
  const { results, failures } = await runSeeds({
    ...{ postgresUrl, template: TEMPLATE, seeds, steps, signal: interruption.signal },
    trace: trace ? (json ? 'stderr' : 'stdout') : undefined,
    onResult({ seed, findings }) {
      if (findings.length > 0) say(`seed ${seed}: ${findings.map(({ rule }) => rule).join('; ')}`)
      if (++done % SAY_EVERY === 0) say(`${done} of ${seeds.length} seeds`)
    },
  })
  const isCutShort = interruption.signal.aborted
  if (isCutShort && interruption.signal.reason !== 'EPIPE')
    say(`Interrupted: ${done} of ${seeds.length} seeds were done.`)
  const failed = isCutShort ? [] : failures // those that were not done did not fail
  const summary = summarize(results, failed, (performance.now() - beganAt) / 1_000)
  if (json) {
    const failing = results.filter(({ findings }) => findings.length > 0)
    printJson({ ...summary, hashes: results.map(({ seed, hash }) => ({ seed, hash })), failing, failures: failed })
  } else {
    for (const result of results) printFindings(result, steps)
    for (const { seed, failure } of failed) process.stdout.write(`\nseed ${seed} could not be run: ${failure}\n`)
    process.stdout.write('\n')
    printSummary(summary, results.length === 1 ? results[0]?.hash : undefined)
    process.stdout.write(`\n${verdict(results, failed)}\n`)
  }
  process.exitCode = summary.failing_seeds.length > 0 ? 1 : isCutShort ? exit('interrupted') : 0
} finally {
  clearInterval(progress)
  await postgres.stop()
}
