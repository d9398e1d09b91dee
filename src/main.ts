import { inspect, parseArgs } from 'node:util'
import { type Config, parseConfig } from './config.ts'
import { SandmanError } from './errors.ts'
import { Events } from './events.ts'
import { ChildFailed, type ReadyMessage } from './fleet/child.ts'
import type { Fleet } from './fleet/fleet.ts'
import { findDatabase } from './fleet/running-file.ts'
import { exitOnCrash, type Running, runUntilSignal } from './fleet/shutdown.ts'
import { captureConsole, createLogger, createRedactor, logEvents } from './logger.ts'
import { VERSION } from './version.ts'

const HELP = `sandman <command>

  dev                    everything on this machine: Postgres if there is none, web and worker
  web                    serve the API, the console and Bull Board
  worker [--queues a,b]  take jobs from the queues
  migrate                bring the database up to date
  doctor [--json]        check the configuration against the real services
  why <sandbox> [--json] tell how a sandbox got where it is
  sweep [--dry-run] [--backend name] [--believe] [--wait 60s] [--json]
                         compare everything with the providers now, and report what is not as it should be;
                         --dry-run does nothing about it, --believe accepts for an hour that much has vanished

  --help, --version

It is configured by the environment, and by a file .env in this folder; the README lists the settings.
`

/** The process exit code; what is printed has been printed. */
type Command = (invocation: Invocation) => Promise<number>
type Invocation = {
  config: Config
  events: Events
  args: string[]
  json: boolean
  supervised: boolean
  dryRun: boolean
  backend: string | undefined
  believe: boolean
  wait: string | undefined
}

/** What a command has to be told besides its name. */
const ARGUMENTS: Record<string, string[]> = { why: ['the id of a sandbox'] }

/** Each loads what it needs: a worker does without the web's libraries, and `--help` without all of them. */
const commands: Record<string, Command> = {
  async dev(invocation) {
    const { config, events } = invocation
    const { startDev } = await import('./fleet/dev.ts')
    return runRole(invocation, (signal) => startDev(config, events, { signal, say: (line) => console.log(line) }))
  },
  async web(invocation) {
    const { config, events } = invocation
    const { startWeb } = await import('./fleet/web.ts')
    return runRole(invocation, async () => startWeb(await findDatabase(config), events))
  },
  async worker(invocation) {
    const { config, events } = invocation
    const { startWorker } = await import('./fleet/worker.ts')
    return runRole(invocation, async () => startWorker(await findDatabase(config), events))
  },
  async migrate({ config, events }) {
    const { migrateAll } = await import('./fleet/migrate.ts')
    await migrateAll(await findDatabase(config), events)
    return 0
  },
  async doctor({ config, events, json }) {
    const { examine } = await import('./fleet/doctor.ts')
    const findings = await examine(config, events)
    if (json) console.log(JSON.stringify({ findings }, null, 2))
    else
      for (const { check, verdict, message } of findings)
        console.log(`${verdict.padEnd(8)} ${check.padEnd(15)} ${message}`)
    return findings.some(({ verdict }) => verdict === 'problem') ? 1 : 0
  },
  why: ({ config, args, json }) =>
    withFleet(config, async (fleet) => {
      const { printWhy } = await import('./fleet/why.ts')
      const why = await fleet.why(args[0] as string)
      console.log(json ? JSON.stringify(why, null, 2) : printWhy(why))
      return 0
    }),
  sweep: ({ config, dryRun, backend, believe, wait, json }) =>
    withFleet(config, async (fleet) => {
      const { isWell, printReport } = await import('./fleet/sweep.ts')
      const some = { ...(backend !== undefined && { backend }), ...(wait !== undefined && { wait }) }
      const report = await fleet.sweep({ dryRun, believe, ...some })
      console.log(json ? JSON.stringify(report, null, 2) : printReport(report))
      return isWell(report) ? 0 : 1
    }),
}

/** For a command that asks as an app would. */
async function withFleet(config: Config, work: (fleet: Fleet) => Promise<number>): Promise<number> {
  const { createFleet } = await import('./fleet/fleet.ts')
  const { databaseUrl, redisUrl, fleet: name, ttl } = await findDatabase(config)
  const { idleMs: idle, hardMs: hard, retentionMs: retention, ifUnsupported } = ttl
  const limits = { idle, hard, retention, ifUnsupported }
  const fleet = createFleet({ databaseUrl, fleet: name, ttl: limits, ...(redisUrl !== undefined && { redisUrl }) })
  try {
    return await work(fleet)
  } finally {
    await fleet.close()
  }
}

async function runRole(
  { events, supervised }: Invocation,
  start: (signal: AbortSignal) => Promise<Running & { url?: string }>,
): Promise<number> {
  const failure = await runUntilSignal(
    async (signal) => {
      const running = await start(signal)
      if (supervised) process.send?.({ ready: true, ...(running.url && { url: running.url }) } satisfies ReadyMessage)
      return running
    },
    { events, supervised },
  )
  if (failure !== undefined) complain(failure)
  return failure === undefined ? 0 : 1
}

const ANSWERS = ['doctor', 'why', 'sweep']

async function main(argv: string[]): Promise<number> {
  const { values, positionals } = parseArgs({
    args: argv,
    allowPositionals: true,
    options: {
      queues: { type: 'string' },
      json: { type: 'boolean', default: false },
      'dry-run': { type: 'boolean', default: false },
      backend: { type: 'string' },
      believe: { type: 'boolean', default: false },
      wait: { type: 'string' },
      supervised: { type: 'boolean', default: false }, // by `sandman dev`; not for people
      help: { type: 'boolean', short: 'h', default: false },
      version: { type: 'boolean', short: 'v', default: false },
    },
  })
  if (values.version) return print(VERSION)
  const [name, ...args] = positionals
  if (values.help || name === 'help') return print(HELP)
  const command = name !== undefined && Object.hasOwn(commands, name) ? commands[name] : undefined
  const needed = ARGUMENTS[name ?? ''] ?? []
  if (command && args.length < needed.length) {
    complain(`${name} needs ${needed.slice(args.length).join(' and ')}\n\n${HELP}`)
    return 2
  }
  if (!command || args.length > needed.length) {
    complain(
      `${name === undefined ? 'a command is needed' : `there is no command "${positionals.join(' ')}"`}\n\n${HELP}`,
    )
    return 2
  }

  loadEnvFile()
  const config = parseConfig({ ...process.env, ...(values.queues !== undefined && { SANDMAN_QUEUES: values.queues }) })
  redact = createRedactor(secretsOf(config))
  const events = new Events()
  // What these find is their answer; a log beside it would only be in the way.
  const level = name !== undefined && ANSWERS.includes(name) ? 'silent' : config.logLevel
  const logger = createLogger({ level, fields: { process: name, pid: process.pid }, redact })
  logEvents(events, logger)
  captureConsole(logger)
  exitOnCrash(events)
  const { json, supervised, backend, believe, wait } = values
  return command({ config, events, args, json, supervised, dryRun: values['dry-run'], backend, believe, wait })
}

function loadEnvFile(): void {
  try {
    process.loadEnvFile('.env') // does not override what is set already
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException
    if (code !== 'ENOENT')
      throw new SandmanError('config_invalid', `The file .env cannot be read (${code}).`, { cause: error })
  }
}

function secretsOf({ databaseUrl, redisUrl, tokens, e2b, agentuity }: Config): string[] {
  const passwords = [databaseUrl, redisUrl].flatMap((url) => /:\/\/[^:@/]*:([^@/]+)@/.exec(url ?? '')?.[1] ?? [])
  // As they are written, and as a library may show them. That they can be decoded has been checked with the rest.
  const decoded = passwords.map(decodeURIComponent)
  const keys = [e2b.apiKey, agentuity.apiKey].filter((key) => key !== undefined)
  return [...tokens.map(({ secret }) => secret), ...keys, ...passwords, ...decoded]
}

/** Straight to stderr: the console belongs to the log. */
function complain(text: string): void {
  process.stderr.write(redact(`sandman: ${text}\n`))
}

function print(text: string): number {
  console.log(text)
  return 0
}

let redact = createRedactor([])
try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  // An expected failure is one sentence; anything else is a bug, and its stack is what helps.
  const isUsage = (error as { code?: string }).code?.startsWith('ERR_PARSE_ARGS')
  if (error instanceof SandmanError || isUsage) complain((error as Error).message)
  else if (!(error instanceof ChildFailed)) complain(inspect(error))
  process.exitCode = isUsage ? 2 : 1
}
// Whatever a library left open must not keep a process that has stopped.
process.exit()
