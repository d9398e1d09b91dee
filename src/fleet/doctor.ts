import { access, constants } from 'node:fs/promises'
import path from 'node:path'
import { abilitiesOf } from '../backends/backend.ts'
import { BACKENDS } from '../backends/catalog.ts'
import type { BackendName } from '../backends/names.ts'
import type { Config } from '../config.ts'
import { pendingMigrations } from '../db/migrate.ts'
import { type Db, describeDatabase, explainDbError, openDb } from '../db/pool.ts'
import { SCHEMA } from '../db/schema.ts'
import { listRights, readServer } from '../db/server.ts'
import { listSweeps, listUnswept } from '../db/sweeps.ts'
import { withDeadline } from '../deadline.ts'
import { describeError, isSandmanError } from '../errors.ts'
import type { Events } from '../events.ts'
import { HOUSEKEEPING } from '../jobs/housekeeping.ts'
import { openStore } from '../queues/bullmq/open-store.ts'
import { Producer } from '../queues/bullmq/producer.ts'
import { ask, type QueueStore } from '../queues/bullmq/store.ts'
import { flyCanary } from './canary.ts'
import { findDatabase } from './running-file.ts'
import { count, duration, when } from './words.ts'

/** What a check has come to. Not a finding: those are the sweeper's. */
type Diagnosis = { check: string; verdict: 'ok' | 'warning' | 'problem'; message: string }

const POSTGRES_MAJOR_MIN = 14
const REDIS_VERSION_MIN = 6.2
const SKEW_MS_MAX = 1_000
const CANARY_MS = 5_000
const PROVIDER_MS = 10_000

/** Checks a configuration against the real services. Finds as much as it can: one problem does not hide the next. */
export async function examine(config: Config, events: Events): Promise<Diagnosis[]> {
  const diagnoses: Diagnosis[] = [{ check: 'configuration', verdict: 'ok', message: `fleet ${config.fleet}` }]
  diagnoses.push(examineLimits(config))
  if (config.databaseUrl === undefined) diagnoses.push(await examineDataFolder(config.dataFolder))
  for (const name of config.backends) diagnoses.push(await examineBackend(name, config))

  const running = await findDatabase(config).catch((error: unknown) => {
    diagnoses.push({ check: 'database', verdict: 'problem', message: describeError(error) })
    return undefined
  })
  const databaseUrl = running?.databaseUrl
  const handle =
    databaseUrl === undefined
      ? undefined
      : openDb({ databaseUrl, applicationName: 'sandman doctor', events, connectionsMax: 2 })
  const setting = config.redisUrl === undefined ? 'DATABASE_URL' : 'REDIS_URL'
  const hasQueue = config.redisUrl !== undefined || databaseUrl !== undefined
  const producer = hasQueue
    ? new Producer(openStore({ ...config, databaseUrl: databaseUrl ?? '', role: 'producer', events }))
    : undefined
  try {
    const databaseWorks = handle && databaseUrl ? await examineDatabase(handle.db, databaseUrl, diagnoses) : false
    if (handle && databaseWorks) diagnoses.push(...(await examineSweeps(handle.db, config.fleet)))
    const queueWorks = producer ? await examineQueue(producer.store, setting, diagnoses) : false
    if (handle && producer && databaseWorks && queueWorks) {
      const workers = await examineWorkers(handle.db, producer, config.fleet)
      diagnoses.push(workers)
      // Where no worker answers, that has been said, and is the reason.
      if (workers.verdict === 'ok') diagnoses.push(...(await examineUnswept(handle.db, config.fleet)))
    }
    return diagnoses
  } finally {
    await producer?.close()
    await handle?.close()
  }
}

/** Only what this process would do: workers with other settings do otherwise. */
function examineLimits({ ttl: { idleMs, hardMs, retentionMs }, sweeper }: Config): Diagnosis {
  const told = Object.entries({ idle: idleMs, hard: hardMs, retention: retentionMs })
    .flatMap(([limit, ms]) => (ms === undefined ? [] : [`${limit} ${duration(ms)}`]))
    .join(', ')
  const limits = told || 'none, so that what has no limits of its own never ends by itself'
  const sweeps = sweeper === 'act' ? '' : '; the sweeper only reports (SANDMAN_SWEEPER)'
  return { check: 'limits', verdict: 'ok', message: `by SANDMAN_TTL as it is here: ${limits}${sweeps}` }
}

/** Whether the sweeper believes what the providers show it. */
async function examineSweeps(db: Db, fleet: string): Promise<Diagnosis[]> {
  return (await listSweeps(db, fleet)).map(({ backend, place, stopped_because, failure, instances, ended_at }) => {
    const where = `${backend} at ${place}`
    if (stopped_because !== null)
      return {
        check: 'sweeper',
        verdict: 'problem',
        message: `${where} is stopped: ${stopped_because} See "sandman sweep --dry-run".`,
      }
    if (failure !== null) return { check: 'sweeper', verdict: 'warning', message: `${where} fails: ${failure}` }
    const since = ended_at
      ? `compared with everything at ${ended_at.toISOString()}`
      : 'not compared with everything so far'
    return { check: 'sweeper', verdict: 'ok', message: `${where}: ${count(instances, 'instance')}, ${since}` }
  })
}

/**
 * Which backends the workers have is written down nowhere. But each backend is swept once a minute, by whoever comes first of those
 * that have it and take the queue: what is on one that was not swept for a whole round is most likely worked on by nobody. Of one that
 * fails, that is said already.
 */
async function examineUnswept(db: Db, fleet: string): Promise<Diagnosis[]> {
  const unswept = await listUnswept(db, { fleet, forMs: HOUSEKEEPING.roundMs })
  return unswept.map(({ backend, sandboxes, sweptAt }) => ({
    check: 'sandboxes',
    verdict: 'warning',
    message: `${count(sandboxes, 'sandbox')} ${sandboxes === 1 ? 'is' : 'are'} on ${backend}, which no worker has ${sweptAt ? `swept since ${when(sweptAt)}` : 'ever swept'}: does one have it (SANDMAN_BACKENDS), and take the queue sweeper?`,
  }))
}

/** Whether it can be opened here, and whether its provider shows what it has. */
async function examineBackend(name: BackendName, config: Config): Promise<Diagnosis> {
  try {
    const backend = await BACKENDS[name].open(config)
    await withDeadline(PROVIDER_MS, `${name}'s list of sandboxes`, (signal) =>
      backend.lists.instances(undefined, { signal }),
    ).finally(() => backend.close())
    const { canPause, canSnapshot } = abilitiesOf(backend)
    const abilities = [...(canPause ? ['pauses'] : []), ...(canSnapshot ? ['takes snapshots'] : [])].join(', ')
    return {
      check: 'backend',
      verdict: 'ok',
      message: `${name}, as it is configured here: ${abilities || 'neither pauses nor takes snapshots'}`,
    }
  } catch (error) {
    return { check: 'backend', verdict: 'problem', message: `${name}: ${describeError(error)}` }
  }
}

async function examineDataFolder(folder: string): Promise<Diagnosis> {
  const may = (candidate: string, mode: number) =>
    access(candidate, mode).then(
      () => true,
      () => false,
    )
  // What does not exist yet is made in the nearest folder that does.
  let nearest = folder
  while (nearest !== path.dirname(nearest) && !(await may(nearest, constants.F_OK))) nearest = path.dirname(nearest)
  return (await may(nearest, constants.W_OK))
    ? { check: 'data folder', verdict: 'ok', message: folder }
    : {
        check: 'data folder',
        verdict: 'problem',
        message: `${nearest} is not writable: run as its owner, or set SANDMAN_DATA`,
      }
}

/** True when the rest can rely on it: it answers, and is migrated. */
async function examineDatabase(db: Db, databaseUrl: string, diagnoses: Diagnosis[]): Promise<boolean> {
  try {
    const askedAtMs = Date.now()
    const { version, versionNumber, clockMs, mayCreate } = await readServer(db)
    const isOld = versionNumber < POSTGRES_MAJOR_MIN * 10_000
    diagnoses.push({
      check: 'database',
      verdict: isOld ? 'problem' : 'ok',
      message: `${describeDatabase(databaseUrl)}, version ${version}${isOld ? `: Sandman needs ${POSTGRES_MAJOR_MIN} or newer` : ''}`,
    })
    diagnoses.push(diagnoseSkew('database clock', clockMs, askedAtMs))

    const pending = await pendingMigrations(db)
    diagnoses.push(
      pending.length === 0
        ? { check: 'migrations', verdict: 'ok', message: 'up to date' }
        : {
            check: 'migrations',
            verdict: 'problem',
            message: `${pending.join(', ')} not applied: run "sandman migrate"`,
          },
    )
    diagnoses.push(pending.length === 0 ? await examinePermissions(db) : mayMigrate(mayCreate))
    return !isOld && pending.length === 0
  } catch (error) {
    const explained = explainDbError(error, databaseUrl)
    diagnoses.push({
      check: 'database',
      verdict: 'problem',
      message: isSandmanError(explained)
        ? explained.message
        : `${describeDatabase(databaseUrl)}: ${describeError(error)}`,
    })
    return false
  }
}

async function examinePermissions(db: Db): Promise<Diagnosis> {
  const rights = await listRights(db)
  const lacking = rights
    .filter(({ missing }) => missing.length > 0)
    .map(({ table, missing }) => `${missing.join(', ')} on ${SCHEMA}.${table}`)
  return lacking.length === 0 && rights.length > 0
    ? { check: 'permissions', verdict: 'ok', message: `may read and write the schema ${SCHEMA}` }
    : {
        check: 'permissions',
        verdict: 'problem',
        message: `this database user lacks ${lacking.join('; ') || `the right to see the schema ${SCHEMA}`}`,
      }
}

function mayMigrate(mayCreate: boolean): Diagnosis {
  return mayCreate
    ? { check: 'permissions', verdict: 'ok', message: 'may create the schema' }
    : {
        check: 'permissions',
        verdict: 'problem',
        message: 'this database user may not create a schema: migrate as one that may',
      }
}

async function examineQueue(store: QueueStore, setting: string, diagnoses: Diagnosis[]): Promise<boolean> {
  try {
    const askedAtMs = Date.now()
    const { version, clockMs, evictionPolicy } = await ask(store, 'The queue was not examined', () => store.look())
    const [, major = '', minor = ''] = /^Redis (\d+)\.(\d+)/.exec(version) ?? []
    const isOld = major !== '' && Number(`${major}.${minor}`) < REDIS_VERSION_MIN
    diagnoses.push({
      check: 'queue',
      verdict: isOld ? 'warning' : 'ok',
      message: `${store.where}, ${version}${isOld ? `: BullMQ asks for ${REDIS_VERSION_MIN} or newer` : ''}`,
    })
    if (evictionPolicy) {
      diagnoses.push({
        check: 'queue memory',
        verdict: 'warning',
        message: `its maxmemory-policy is ${evictionPolicy}: jobs may be thrown away; set it to noeviction`,
      })
    }
    diagnoses.push(diagnoseSkew('queue clock', clockMs, askedAtMs))
    return true
  } catch (error) {
    const message = `${describeError(error)}. Check ${setting} and that the server runs.`
    diagnoses.push({ check: 'queue', verdict: 'problem', message })
    return false
  }
}

async function examineWorkers(db: Db, producer: Producer, fleet: string): Promise<Diagnosis> {
  try {
    const answer = await flyCanary({ db, producer, fleet }, CANARY_MS)
    return answer
      ? { check: 'workers', verdict: 'ok', message: `${answer.answeredBy} answered a job in ${answer.tookMs} ms` }
      : {
          check: 'workers',
          verdict: 'warning',
          message: `no worker of fleet ${fleet} took a job within ${CANARY_MS / 1_000} s: is one running, and does it take the queue canary?`,
        }
  } catch (error) {
    return { check: 'workers', verdict: 'problem', message: describeError(error) }
  }
}

/** The answer was made between question and now; only what lies outside of that is skew. */
function diagnoseSkew(check: string, clockMs: number, askedAtMs: number): Diagnosis {
  const answeredAtMs = Date.now()
  const skewMs = clockMs < askedAtMs ? askedAtMs - clockMs : Math.max(0, clockMs - answeredAtMs)
  return skewMs <= SKEW_MS_MAX
    ? { check, verdict: 'ok', message: 'agrees with this machine' }
    : {
        check,
        verdict: 'warning',
        message: `differs from this machine by ${(skewMs / 1_000).toFixed(1)} s: delays and deadlines will be off by as much; check NTP`,
      }
}
