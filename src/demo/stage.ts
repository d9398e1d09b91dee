import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { parseConfig } from '../config.ts'
import { startEmbeddedPostgres } from '../embedded/postgres.ts'
import { Events } from '../events.ts'
import { createFleet } from '../fleet/fleet.ts'
import { migrateAll } from '../fleet/migrate.ts'
import { startWeb } from '../fleet/web.ts'
import { closePool, openPool } from '../pg-pool.ts'
import type { Incident, SandmanScene, UsualScene } from './incident.ts'
import { Machine } from './machine.ts'
import { DEMO_PATH } from './page.ts'
import { openProvider } from './provider.ts'
import { serveDemo } from './serve.ts'
import type { Show } from './show.ts'
import { UsualCode } from './usual-code.ts'
import { Driver, PausingDriver } from './usual-driver.ts'
import type { WorkerAnswer, WorkerOrder } from './worker.ts'

const FLEET = 'demo'
const WORKER_START_MS = 60_000
/** Longer than the worker gives to its work. */
const WORKER_STOP_MS = 10_000

type Parts<Scene> = Omit<Scene, 'say' | 'signal'>

export type Stage = {
  /** Of its page in the console. */
  url: string
  usual(incident: Incident): Parts<UsualScene>
  sandman(incident: Incident): Parts<SandmanScene>
  /** Ends everything that there is of it: processes, folders, the database. */
  close(): Promise<void>
}

type StageOptions = { incidents: readonly Incident[]; show: Show; signal: AbortSignal; say: (text: string) => void }

/**
 * A whole fleet that is there for the demo only: a Postgres, a worker in a process of its own, and a console, all below one
 * folder. The folder belongs to the keeper of that Postgres, which removes it however this process ends; and sandboxes end
 * when their folder is gone.
 */
export async function setStage({ incidents, show, signal, say }: StageOptions): Promise<Stage> {
  const folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-demo-'))
  const folders = { usual: path.join(folder, 'usual'), sandman: path.join(folder, 'sandman') }
  const events = new Events()
  const machineOf = (side: keyof typeof folders, { provider }: Incident, leaving: AbortSignal) =>
    new Machine({ folder: path.join(folders[side], provider.name), fleet: FLEET, signal: leaving })
  /** What has been set up, the last first. */
  const closing: (() => Promise<unknown>)[] = [() => rm(folder, { recursive: true, force: true })]
  const close = async () => {
    const failures: unknown[] = []
    for (const end of closing.splice(0).reverse()) await end().catch((error) => failures.push(error))
    if (failures.length > 0) throw failures[0] // now that the others have been ended all the same
  }
  const step = (text: string) => {
    signal.throwIfAborted()
    say(text)
  }
  try {
    step('Starting a Postgres that is thrown away afterwards')
    const postgres = await startEmbeddedPostgres({ folder, disposable: true })
    const databaseUrl = postgres.url
    closing.push(() => postgres.stop())
    await migrateAll({ databaseUrl, redisUrl: undefined }, events)
    const pool = openPool({ connectionString: databaseUrl }, () => {}) // the server is stopped when everything is over
    closing.push(() => closePool(pool))
    await UsualCode.migrate(pool)

    step('Starting a worker and a console')
    const fromNowOn = new AbortController().signal
    closing.push(async () => {
      for (const incident of incidents)
        for (const side of ['usual', 'sandman'] as const) await machineOf(side, incident, fromNowOn).endAll()
    })
    const providers = incidents.map(({ provider }) => provider)
    const worker = startWorker({ databaseUrl, fleet: FLEET, folder: folders.sandman, providers })
    closing.push(() => stopWorker(worker.child))
    const config = { ...parseConfig({ DATABASE_URL: databaseUrl, SANDMAN_FLEET: FLEET, PORT: '0' }), databaseUrl }
    const web = await startWeb(config, events, { more: (routes, fleet) => serveDemo(routes, fleet, show) })
    closing.push(() => web.stop())
    const abilities = providers.map(({ name, canPause }) => ({ name, canPause, canSnapshot: canPause }))
    const fleet = createFleet({ databaseUrl, fleet: FLEET, backends: abilities })
    closing.push(() => fleet.close())
    signal.addEventListener('abort', () => fleet.stopWaiting(), { once: true })
    await worker.ready

    return {
      url: `${web.url}${DEMO_PATH}`,
      usual(incident) {
        const { name, canPause } = incident.provider
        const provider = openProvider({ name, canPause, folder: path.join(folders.usual, name), fleet: FLEET })
        const code = new UsualCode(pool, canPause ? new PausingDriver(provider, signal) : new Driver(provider, signal))
        return { code, machine: machineOf('usual', incident, signal) }
      },
      sandman: (incident) => ({
        fleet,
        backend: incident.provider.name,
        machine: machineOf('sandman', incident, signal),
      }),
      close,
    }
  } catch (error) {
    await close()
    throw error
  }
}

function startWorker(order: WorkerOrder): { child: ChildProcess; ready: Promise<void> } {
  const file = path.join(import.meta.dirname, `worker${path.extname(import.meta.filename)}`)
  const child = fork(file, { stdio: ['ignore', 'ignore', 'ignore', 'ipc'], execArgv: [] })
  const timer = setTimeout(() => child.kill('SIGKILL'), WORKER_START_MS)
  const ready = new Promise<void>((resolve, reject) => {
    const fail = (why: string) => reject(new Error(`The worker of the demo did not start: ${why}`))
    child.once('message', (answer: WorkerAnswer) => ('ready' in answer ? resolve() : fail(answer.failed)))
    child.once('error', (error) => fail(error.message))
    child.once('exit', (code, signal) => fail(`it ended with ${signal ?? code}`))
  }).finally(() => clearTimeout(timer))
  ready.catch(() => {}) // it is awaited last, and may fail before that
  child.send(order)
  return { child, ready }
}

async function stopWorker(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const ended = once(child, 'exit')
  child.kill('SIGTERM')
  const kill = setTimeout(() => child.kill('SIGKILL'), WORKER_STOP_MS)
  await ended
  clearTimeout(kill)
}
