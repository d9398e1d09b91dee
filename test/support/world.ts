import { mkdtemp, readdir, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { expect } from 'vitest'
import type { Backend } from '../../src/backends/backend.ts'
import { removeCgroups } from '../../src/backends/local/cgroups.ts'
import { makeHome } from '../../src/backends/local/home.ts'
import { findInstance } from '../../src/backends/local/instance.ts'
import { endEverything } from '../../src/backends/local/processes.ts'
import { findViolations } from '../../src/db/invariants.ts'
import { type DbHandle, openDb } from '../../src/db/pool.ts'
import type { OperationRow } from '../../src/db/schema.ts'
import { Events } from '../../src/events.ts'
import {
  abilitiesOf,
  createFleet,
  createWorker,
  type Fleet,
  PATIENCE,
  type Patience,
  type Sandbox,
  type WorkerOptions,
} from '../../src/index.ts'
import { Producer } from '../../src/queues/bullmq/producer.ts'
import { QUEUES } from '../../src/queues/catalog.ts'
import { QUEUE_NAMES, type QueueName } from '../../src/queues/names.ts'
import { shareCompiled } from './compiled.ts'
import { RecordedEvents } from './events.ts'
import { FakeProvider } from './provider/server.ts'
import { createStoreHome, openTestStore, type StoreHome, type StoreKind } from './stores.ts'
import { worldBackends } from './test-backend.ts'

/** How long tests wait for what: enough for a machine that is busy, and not so long that a test which waits for its end takes long. */
export const QUICK: Patience = {
  ...PATIENCE,
  changingMs: 5_000,
  pendingMs: 1_500,
  previewMs: 2_000,
  pollMs: [10, 200],
  unknownMs: 300,
}

export const IMPATIENT = {
  ...QUICK,
  callMs: { ...QUICK.callMs, look: 1_000, end: 1_000, suspend: 1_000, resume: 1_000, verify: 1_000 },
}

/** Queues whose jobs are asked for by somebody. */
export const UNSCHEDULED: QueueName[] = QUEUE_NAMES.filter((name) => !('everyMs' in QUEUES[name]))

/** A whole fleet: queues, a database, a scriptable provider, a folder for the local backend; and workers, when they are started. */
export type World = Awaited<ReturnType<typeof createWorld>>

type WorldParts = {
  /** For apps that do not say which fleet they mean. Defaults to one that nobody else has. */
  fleet?: string
  redisUrl?: string
  databaseUrl?: string
  provider?: FakeProvider
  /** A backend that its workers have besides. */
  open?: ((fleet: string) => Promise<Backend>) | undefined
}

export async function createWorld(
  kind: StoreKind,
  /** What it shares with another world, or has for itself. */
  { provider: shared, open, ...own }: WorldParts = {},
) {
  const home: StoreHome = { ...(await createStoreHome(kind)), ...own }
  const provider = shared ?? (await FakeProvider.start())
  const dataFolder = await mkdtemp(path.join(os.tmpdir(), 'sandman-world-'))
  await shareCompiled(path.join(dataFolder, 'sandboxes'), home.fleet)
  const besides = open ? [await open(home.fleet)] : []
  const backends = () => [...worldBackends(provider.url, home.fleet), ...besides]
  const place = {
    databaseUrl: home.databaseUrl,
    ...(home.redisUrl !== undefined && { redisUrl: home.redisUrl }),
    fleet: home.fleet,
  }
  const fleet: Fleet = createFleet({ ...place, backends: backends().map(abilitiesOf) })
  const handle: DbHandle = openDb({
    databaseUrl: home.databaseUrl,
    applicationName: 'sandman test',
    events: new Events(),
    connectionsMax: 4,
  })
  const workers: { stop(): Promise<void> }[] = []
  const eye = new Producer(openTestStore(home, { role: 'producer', events: new Events() }))
  const hurrying = hurry(eye)

  return {
    home,
    place,
    dataFolder,
    provider,
    fleet,
    db: handle.db,
    /** The queues, as BullMQ's own objects. */
    eye,

    /** Those in this process, in the order in which they were started. Stopping one twice is fine. */
    workers,

    /** Without the reaper and the sweeper, unless they are asked for: a test says itself when those tick. */
    async startWorker(options: Partial<Omit<WorkerOptions, 'backends' | 'onEvent'>> = {}) {
      const events = new RecordedEvents()
      const { patience = QUICK, queues = UNSCHEDULED, ...rest } = options
      const worker = await createWorker({
        ...place,
        ...rest,
        backends: ['local', ...backends()],
        dataFolder,
        patience,
        queues,
        onEvent({ name, fields }) {
          events.emit(name, fields)
          if (name === 'job.failed' || name === 'job.snoozed') hurrying.now()
        },
      })
      workers.push(worker)
      return { ...worker, events }
    },

    /** One that runs. Needs a worker. */
    async running(asked: Partial<Parameters<Fleet['spawn']>[0]> = {}): Promise<Sandbox> {
      const { operation, sandbox } = await fleet.spawn({ backend: 'test', ...asked, wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      expect(sandbox.state).toBe('running')
      return sandbox
    },

    async suspended(asked: Partial<Parameters<Fleet['spawn']>[0]> = {}): Promise<Sandbox> {
      const { id } = await this.running(asked)
      const { operation, sandbox } = await fleet.pause(id, { wait: '30s' })
      expect(operation).toMatchObject({ status: 'succeeded', outcome: 'done' })
      return sandbox
    },

    operations: (sandboxId: string): Promise<OperationRow[]> =>
      handle.db.selectFrom('operations').selectAll().where('sandbox_id', '=', sandboxId).orderBy('place').execute(),

    async expectInvariants(): Promise<void> {
      expect(await findViolations(handle.db, { fleet: home.fleet })).toEqual([])
      // What is gone is out of reach of every request, so nothing of it may be left.
      const gone = handle.db
        .selectFrom('sandboxes')
        .select('id')
        .where('state', '=', 'gone')
        .where('fleet', '=', home.fleet)
      const left = (await gone.execute()).flatMap(({ id }) => provider.instancesOf(id))
      expect(left).toEqual([])
    },

    async end(): Promise<void> {
      await fleet.close()
      await Promise.all(workers.map((worker) => worker.stop()))
      await hurrying.stop()
      await eye.close()
      await handle.close()
      if (!shared) await provider.stop()
      await home.drop()
      await endLocalSandboxes(path.join(dataFolder, 'sandboxes'), home.fleet)
      await rm(dataFolder, { recursive: true, force: true })
    },
  }
}

/** As a reboot does: nothing that ran in it is left, and all files are. */
export async function loseProcesses({ dataFolder, place }: World, { providerRef }: Sandbox): Promise<void> {
  const home = await makeHome(path.join(dataFolder, 'sandboxes'), place.fleet)
  const instance = await findInstance(home, providerRef as string)
  if (instance) await endEverything(instance)
}

/** Whatever a test has left running on this machine. */
async function endLocalSandboxes(folder: string, fleet: string): Promise<void> {
  const home = await makeHome(folder, fleet)
  for (const ref of await readdir(home.instances)) {
    const instance = await findInstance(home, ref).catch(() => undefined)
    if (!instance) continue
    await endEverything(instance)
    await removeCgroups(instance.labels.cgroups)
  }
}

/** Long enough for a job that has just failed to be put aside, also on a machine that is busy. */
const HURRY_FOR_MS = 3_000

/** Time flies: what waits for its next attempt gets it now. How long it would have waited is seen in `test/queues`. */
function hurry(eye: Producer): { now(): void; stop(): Promise<void> } {
  let isStopped = false
  let untilMs = 0
  let hurrying: Promise<void> | undefined
  const promote = async (): Promise<void> => {
    while (!isStopped && performance.now() < untilMs) {
      for (const { queue } of await eye.all()) {
        for (const job of await queue.getDelayed()) await job.promote().catch(() => {}) // it may have gone on by itself
      }
      await new Promise((resolve) => setTimeout(resolve, 50))
    }
  }
  return {
    now() {
      untilMs = performance.now() + HURRY_FOR_MS
      hurrying ??= promote()
        .catch(() => {})
        .finally(() => {
          hurrying = undefined
        })
    },
    async stop() {
      isStopped = true
      await hurrying
    },
  }
}
