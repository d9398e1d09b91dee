import { mkdtemp } from 'node:fs/promises'
import path from 'node:path'
import { Redis } from 'ioredis'
import pg from 'pg'
import type { TestProject } from 'vitest/node'
import { findRedisServer, lookForRedis, startRedisServer } from '../../proof/redis.ts'
import { startEmbeddedPostgres } from '../../src/embedded/postgres.ts'
import { Events } from '../../src/events.ts'
import { migrateAll } from '../../src/fleet/migrate.ts'
import { TEMPLATE_DATABASE } from './database.ts'
import { offerEngine } from './docker/offer-engine.ts'
import { quickFolder } from './quick-folder.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** Of the private Postgres's maintenance database. */
    postgresUrl: string
    redisUrl: string
    /** Path of a Redis server to start more of; empty when only `REDIS_URL` was to be had. */
    redisServer: string
    /** Where the Docker engine of this run is asked for, which is started for the first who does. */
    engineUrl: string
  }
}

/** Private services for this run of the tests, on free ports. They end with the run, however it ends. */
export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  const folder = await mkdtemp(path.join(await quickFolder(), 'sandman-test-'))
  // Hundreds of processes are started from the same sources: they are compiled once. Not in the folder, which would come back:
  // Node writes at the very end of a process.
  process.env.NODE_COMPILE_CACHE = path.resolve('node_modules/.cache/sandman-test')
  const [postgres, redisServer] = await Promise.all([
    startEmbeddedPostgres({ folder, disposable: true }),
    process.env.REDIS_URL === undefined ? findRedisServer() : lookForRedis(),
  ])
  const redis = process.env.REDIS_URL === undefined ? await startRedisServer(redisServer as string) : undefined
  const postgresUrl = postgres.url.replace(/[^/]+$/, 'postgres')
  await createTemplate(postgresUrl)
  project.provide('postgresUrl', postgresUrl)
  project.provide('redisUrl', process.env.REDIS_URL ?? (redis?.url as string))
  project.provide('redisServer', redisServer ?? '')
  const engine = await offerEngine()
  project.provide('engineUrl', engine.url)
  return async () => {
    if (process.env.REDIS_URL !== undefined) await removeTestKeys(process.env.REDIS_URL)
    await Promise.all([postgres.stop(), redis?.stop(), engine.stop()])
  }
}

/** Migrated once; every test file gets a copy of it. */
async function createTemplate(postgresUrl: string): Promise<void> {
  const client = new pg.Client(postgresUrl)
  await client.connect()
  await client.query(`create database ${TEMPLATE_DATABASE}`)
  await client.end()
  await migrateAll({ databaseUrl: postgresUrl.replace(/[^/]+$/, TEMPLATE_DATABASE), redisUrl: undefined }, new Events())
}

/** A Redis that is not ours keeps what is not ours, and loses what is. */
async function removeTestKeys(redisUrl: string): Promise<void> {
  const redis = new Redis(redisUrl)
  for await (const keys of redis.scanStream({ match: 'sandman:{test-*', count: 1_000 })) {
    if ((keys as string[]).length > 0) await redis.unlink(keys as string[])
  }
  redis.disconnect()
}
