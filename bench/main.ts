/** `npm run bench`: what it can do, beside what its parts allow. */
import path from 'node:path'
import { printJson, printTable, readArgs, refuse } from '../proof/report.ts'
import type { Servers } from '../proof/servers.ts'
import { exit } from '../src/cli/exits.ts'
import { runSections } from './run.ts'
import type { Section } from './section.ts'
import { SIZES } from './sizes.ts'
import { tableOf } from './table.ts'

/** Each is loaded when it is run: who has mistyped one is told at once. */
const SECTIONS: Record<string, Section> = {
  operations: async (bench) => (await import('./operations.ts')).operations(bench),
  latency: async (bench) => (await import('./latency.ts')).latency(bench),
  enqueue: async (bench) => (await import('./enqueue.ts')).enqueue(bench),
  scaling: async (bench) => (await import('./scaling.ts')).scaling(bench),
  'usual-way': async (bench) => (await import('./beside-the-usual-way.ts')).usualWay(bench),
  housekeeping: async (bench) => (await import('./housekeeping.ts')).housekeeping(bench),
  streams: async (bench) => (await import('./streams.ts')).streams(bench),
  footprint: async (bench) => (await import('./footprint.ts')).footprint(bench),
}

/** Said of one backend, and so only when it is asked for. */
const BESIDES: Record<string, Section> = {
  'kubernetes-watch': async (bench) => (await import('./kubernetes-watch.ts')).kubernetesWatch(bench),
}

const USAGE = `npm run bench -- [section …] [--quick | --tiny] [--json] [--profile folder]

Sections: ${Object.keys(SECTIONS).join(', ')}. All of them, unless some are named.
Only when named: ${Object.keys(BESIDES).join(', ')}.
--quick    smaller, and so quicker
--tiny     only shows that it works
--json     one object instead of a table
--profile  write profiles of the processes that work off a queue into this folder`

const { values, positionals } = readArgs(USAGE, {
  quick: { type: 'boolean' },
  tiny: { type: 'boolean' },
  json: { type: 'boolean' },
  profile: { type: 'string' },
})
const size = values.tiny ? 'tiny' : values.quick ? 'quick' : 'full'
const known = new Map(Object.entries({ ...SECTIONS, ...BESIDES }))
const names = positionals.length > 0 ? positionals : Object.keys(SECTIONS)
const unknown = names.find((name) => !known.has(name))
if (unknown !== undefined) refuse(USAGE, `There is no section ${unknown}.`)

// Servers that run end with the process; those that are being made are waited for, so that nothing of them is left.
let isInterrupted = false
let servers: Servers | undefined
const interrupt = () => {
  isInterrupted = true
  if (servers) process.exit(exit('interrupted'))
}
process.on('SIGINT', interrupt)
process.on('SIGTERM', interrupt)
const { startServers } = await import('../proof/servers.ts')
servers = await startServers().catch((error: unknown) => {
  if (isInterrupted) process.exit(exit('interrupted'))
  throw error
})
if (isInterrupted) process.exit(exit('interrupted'))
const { results, rows, failed } = await runSections(new Map(names.map((name) => [name, known.get(name) as Section])), {
  servers,
  sizes: SIZES[size],
  profileFolder: values.profile === undefined ? undefined : path.resolve(values.profile),
})
await servers.stop()
if (values.json) printJson({ size, ...results, ...(failed && { failed }) })
else printTable(tableOf(rows))
process.exitCode = failed ? 1 : 0
