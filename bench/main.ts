/** `npm run bench`: what it can do, beside what its parts allow. */
import path from 'node:path'
import { parseArgs } from 'node:util'
import { printJson, printTable, refuse, say } from '../proof/report.ts'
import { startServers } from '../proof/servers.ts'
import { usualWay } from './beside-the-usual-way.ts'
import { enqueue } from './enqueue.ts'
import { footprint } from './footprint.ts'
import { housekeeping } from './housekeeping.ts'
import { latency } from './latency.ts'
import { operations } from './operations.ts'
import { scaling } from './scaling.ts'
import { isMet, type Row, type Section } from './section.ts'
import { SIZES } from './sizes.ts'
import { streams } from './streams.ts'

const SECTIONS: Record<string, Section> = {
  operations,
  latency,
  enqueue,
  scaling,
  'usual-way': usualWay,
  housekeeping,
  streams,
  footprint,
}

/** Said of one backend, and so only when it is asked for. */
const BESIDES: Record<string, Section> = {
  'kubernetes-watch': async (bench) => (await import('./kubernetes-watch.ts')).kubernetesWatch(bench),
}

const USAGE = `npm run bench -- [section …] [--quick] [--json] [--profile folder]

Sections: ${Object.keys(SECTIONS).join(', ')}. All of them, unless some are named.
Only when named: ${Object.keys(BESIDES).join(', ')}.
--quick    smaller, so that all of it takes less than three minutes
--json     one object instead of a table
--profile  write profiles of the measured processes into this folder`

const { values, positionals } = readArguments()
const names = new Set(positionals.length > 0 ? positionals : Object.keys(SECTIONS))
const unknown = [...names].find((name) => !Object.hasOwn(SECTIONS, name) && !Object.hasOwn(BESIDES, name))
if (unknown !== undefined) refuse(USAGE, `There is no section ${unknown}.`)

const servers = await startServers()
const bench = {
  servers,
  sizes: SIZES[values.tiny ? 'tiny' : values.quick ? 'quick' : 'full'],
  profileFolder: values.profile === undefined ? undefined : path.resolve(values.profile),
}
const results: Record<string, object> = {}
const failed: Record<string, string> = {}
const rows: Row[] = []
for (const name of names) {
  try {
    const result = await ((SECTIONS[name] ?? BESIDES[name]) as Section)(bench)
    results[name] = result.json
    rows.push(...result.rows)
  } catch (error) {
    failed[name] = String((error as Error).stack ?? error)
    say(`${name} failed: ${failed[name]}`)
  }
}
await servers.stop()
const hasFailed = Object.keys(failed).length > 0
if (values.json) printJson({ ...results, ...(hasFailed && { failed }) })
else printTable([['figure', 'value', 'limit', 'ratio', 'goal', 'limit is'], ...rows.map(cellsOf)])
process.exitCode = hasFailed ? 1 : 0

function readArguments() {
  const options = {
    quick: { type: 'boolean' },
    tiny: { type: 'boolean' },
    json: { type: 'boolean' },
    profile: { type: 'string' },
  } as const
  try {
    return parseArgs({ options, strict: true, allowPositionals: true })
  } catch (error) {
    return refuse(USAGE, (error as Error).message)
  }
}

function cellsOf(row: Row): string[] {
  const { figure, value, unit, limit, limitIs = '', ratio, goal } = row
  const met = isMet(row)
  const wanted = goal && ('atLeast' in goal ? `≥ ${goal.atLeast}` : `≤ ${goal.atMost}`)
  return [
    figure,
    `${value} ${unit}`.trim(),
    limit === undefined ? '' : `${limit} ${unit}`.trim(),
    ratio === undefined ? '' : String(ratio),
    met === undefined ? '' : `${wanted} ${met ? 'met' : 'missed'}`,
    limitIs,
  ]
}
