import { mkdtemp } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { printJson, say } from '../proof/report.ts'
import { startEmbeddedPostgres } from '../src/embedded/postgres.ts'
import { Events } from '../src/events.ts'
import { migrateAll } from '../src/fleet/migrate.ts'
import { readArguments } from './arguments.ts'
import { printFindings, printSummary, summarize } from './report.ts'
import { administer, runSeeds } from './seeds.ts'

const TEMPLATE = 'simulate_template'
/** Between two lines that say how far it is. */
const SAY_EVERY = 25

const { seeds, steps, trace, json } = readArguments()
const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-simulate-'))
const postgres = await startEmbeddedPostgres({ folder, disposable: true })
try {
  const postgresUrl = postgres.url.replace(/[^/]+$/, 'postgres')
  await administer(postgresUrl, `create database ${TEMPLATE}`)
  await migrateAll({ databaseUrl: postgresUrl.replace(/[^/]+$/, TEMPLATE), redisUrl: undefined }, new Events())
  const beganAt = performance.now()
  let done = 0
  const { results, failures } = await runSeeds({
    ...{ postgresUrl, template: TEMPLATE, seeds, steps, trace },
    onResult({ seed, findings }) {
      if (findings.length > 0) say(`seed ${seed}: ${findings.map(({ rule }) => rule).join('; ')}`)
      if (++done % SAY_EVERY === 0) say(`${done} of ${seeds.length} seeds`)
    },
  })
  const summary = summarize(results, failures, (performance.now() - beganAt) / 1_000)
  if (json) {
    const failing = results.filter(({ findings }) => findings.length > 0)
    printJson({ ...summary, hashes: results.map(({ seed, hash }) => ({ seed, hash })), failing, failures })
  } else {
    for (const result of results) printFindings(result, steps)
    for (const { seed, failure } of failures) process.stdout.write(`\nseed ${seed} could not be run: ${failure}\n`)
    process.stdout.write('\n')
    printSummary(summary)
  }
  process.exitCode = summary.failing_seeds.length > 0 ? 1 : 0
} finally {
  await postgres.stop()
}
