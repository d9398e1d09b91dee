import { type ChildProcess, fork } from 'node:child_process'
import path from 'node:path'
import type { Config } from '../config.ts'
import { describeDatabase, openDb } from '../db/pool.ts'
import { type EmbeddedPostgres, startEmbeddedPostgres } from '../embedded/postgres.ts'
import { describeError, SandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import { Producer } from '../queues/bullmq/producer.ts'
import { flyCanary } from './canary.ts'
import { ChildFailed, type ReadyMessage } from './child.ts'
import type { RunningConfig } from './foundation.ts'
import { migrateAll } from './migrate.ts'
import { assertPortFree } from './port.ts'
import { findRunning, removeRunningFile, writeRunningFile } from './running-file.ts'
import type { Running } from './shutdown.ts'

const CANARY_MS = 10_000
const CHILD_START_MS = 60_000
/** On top of the grace period that the children give to their work. */
const CHILD_STOP_MS = 10_000

/** A part that ends by itself is replaced, but one that has ended so often within so long would do so for ever. */
const ENDS_MAX = 4
const ENDS_MS = 60_000

type DevOptions = { signal: AbortSignal; say: (line: string) => void }

/** Everything on one machine: a database if there is none, web and worker as processes of their own, and where to find them. */
export async function startDev(config: Config, events: Events, { signal, say: print }: DevOptions): Promise<Running> {
  // Every step is announced, and none is begun after Ctrl-C.
  const say = (line: string) => {
    signal.throwIfAborted()
    print(line)
  }
  let embedded: EmbeddedPostgres | undefined
  const children = new Map<Role, ChildProcess>()
  let isStopping = false
  const stop = async () => {
    isStopping = true
    await Promise.all([...children.values()].map((child) => stopChild(child, config.graceMs + CHILD_STOP_MS)))
    if (embedded) {
      await removeRunningFile(config.dataFolder)
      await embedded.stop()
    }
  }
  try {
    const isEmbedded = config.databaseUrl === undefined
    // Another process that has the data folder most likely has the port, too. Then starting Postgres fails below, which says
    // more, and starts nothing either.
    if (!(isEmbedded && (await findRunning(config.dataFolder)))) await assertPortFree(config)
    if (isEmbedded) {
      say(`Starting Postgres in ${path.relative('', config.dataFolder) || '.'}`)
      embedded = await startEmbeddedPostgres({ folder: config.dataFolder })
      await writeRunningFile(config.dataFolder, embedded.url)
    }
    const running: RunningConfig = { ...config, databaseUrl: config.databaseUrl ?? (embedded as EmbeddedPostgres).url }
    say('Migrating the database')
    await migrateAll(running, events)
    say('Starting web and worker')
    const [{ url = '' }] = await Promise.all([
      startChild('web', running, children),
      startChild('worker', running, children),
    ])
    await proveItWorks(running, events, say)
    say(banner(running, url, embedded !== undefined))
    // Whoever has opened the console finds it there again.
    const again = { ...running, port: Number(new URL(url).port) }
    const keep = (role: Role) => keepRunning(role, again, { children, say: print, isStopping: () => isStopping })
    const broken = Promise.race([
      keep('web'),
      keep('worker'),
      ...(embedded ? [embedded.service.ended.then(() => 'The embedded Postgres ended by itself.')] : []),
    ])
    return { stop, broken }
  } catch (error) {
    await stop()
    throw error
  }
}

type Keeping = { children: Map<Role, ChildProcess>; say: (line: string) => void; isStopping: () => boolean }

/** Puts another one in the place of a part that ended by itself; says why not, when it does not. */
async function keepRunning(role: Role, config: RunningConfig, { children, say, isStopping }: Keeping): Promise<string> {
  for (let ends: number[] = []; ; ) {
    const child = children.get(role) as ChildProcess
    await ended(child)
    if (isStopping()) return new Promise(() => {}) // who stops it waits for it
    const now = performance.now()
    ends = [...ends.filter((at) => now - at < ENDS_MS), now]
    const how = child.signalCode === null ? `with exit code ${child.exitCode}` : `by ${child.signalCode}`
    if (ends.length === ENDS_MAX)
      return `The ${role} process was ended ${how}, ${ENDS_MAX} times within ${ENDS_MS / 1_000} s. What was under way goes on at the next start.`
    say(`The ${role} process was ended ${how}: starting another one, which goes on with what was under way`)
    try {
      await startChild(role, config, children)
    } catch (error) {
      // One that was started has said why, and has ended again.
      if (!(error instanceof ChildFailed))
        return `${describeError(error)} What was under way goes on at the next start.`
    }
  }
}

type Role = 'web' | 'worker'

async function startChild(role: Role, config: RunningConfig, children: Map<Role, ChildProcess>): Promise<ReadyMessage> {
  const main = path.join(import.meta.dirname, '..', `main${path.extname(import.meta.filename)}`)
  const child = fork(main, [role, '--supervised'], {
    env: {
      ...process.env,
      DATABASE_URL: config.databaseUrl,
      SANDMAN_QUEUES: config.queues.join(','),
      PORT: String(config.port),
    },
    stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
  })
  // One that could not be started never exits, and nobody is to wait for that.
  if (child.pid !== undefined) children.set(role, child)
  const timer = setTimeout(() => child.kill('SIGKILL'), CHILD_START_MS)
  return new Promise<ReadyMessage>((resolve, reject) => {
    child.once('message', (message: ReadyMessage) => resolve(message))
    child.on('error', ({ message }) =>
      reject(new SandmanError('process_not_started', `The ${role} process could not be started: ${message}.`)),
    )
    child.once('exit', () => reject(new ChildFailed(role)))
  }).finally(() => clearTimeout(timer))
}

function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return Promise.resolve()
  return new Promise((resolve) => child.once('exit', () => resolve()))
}

async function stopChild(child: ChildProcess, withinMs: number): Promise<void> {
  child.kill('SIGTERM')
  const kill = setTimeout(() => child.kill('SIGKILL'), withinMs)
  await ended(child)
  clearTimeout(kill)
}

/** Ready is what was seen to work, not what was started: a job has gone through the queue to the worker and back. */
async function proveItWorks(config: RunningConfig, events: Events, say: (line: string) => void): Promise<void> {
  const { db, close } = openDb({
    databaseUrl: config.databaseUrl,
    applicationName: 'sandman dev',
    events,
    connectionsMax: 1,
  })
  const producer = new Producer(openStore({ ...config, role: 'producer', events }))
  try {
    const answer = await flyCanary({ db, producer, fleet: config.fleet }, CANARY_MS)
    if (answer) say(`A job went through the queue and back in ${answer.tookMs} ms`)
    else say(`No worker answered a job within ${CANARY_MS / 1_000} s: the log above may say why`)
  } catch (error) {
    say(`The queue does not work yet: ${(error as Error).message}`)
  } finally {
    await producer.close()
    await close()
  }
}

/** As whoever started this would start it: in a clone by npm, elsewhere as a package. */
const DEMO = process.env.npm_lifecycle_event === 'start' ? 'npm run demo' : 'npx sandman demo'

function banner(config: RunningConfig, listening: string, isEmbedded: boolean): string {
  const url = listening.replace('//0.0.0.0:', '//localhost:').replace('//[::]:', '//localhost:')
  const database = isEmbedded
    ? `embedded Postgres, kept in ${path.relative('', config.dataFolder) || '.'}`
    : describeDatabase(config.databaseUrl)
  return `
Sandman is running: fleet ${config.fleet}, ${database}, queues on ${config.redisUrl ? 'Redis' : 'Postgres'}

  Demo        ${DEMO}, in another terminal: how sandboxes get lost elsewhere, played live
  Console     ${url}/
  Bull Board  ${url}/queues
  API         ${url}/v1

Ctrl-C stops it.
`
}
