import { mkdtemp, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import pg from 'pg'
import { startEmbeddedPostgres } from '../src/embedded/postgres.ts'
import { Events } from '../src/events.ts'
import { migrateAll } from '../src/fleet/migrate.ts'
import { findRedisServer, startRedisServer } from './redis.ts'

/** A Postgres and a Redis of one's own, on free ports. They end with the process, however it ends. */
export type Servers = {
  /** Of its maintenance database. */
  postgresUrl: string
  redisUrl: string
  /** Migrated for Sandman, and for queues on Postgres. */
  createDatabase(name: string): Promise<string>
  stop(): Promise<void>
}

export async function startServers(): Promise<Servers> {
  const [postgres, redis] = await Promise.all([startPostgres('proof'), startRedis()])
  const postgresUrl = postgres.url.replace(/[^/]+$/, 'postgres')
  return {
    postgresUrl,
    redisUrl: redis.url,
    async createDatabase(name) {
      const client = new pg.Client(postgresUrl)
      await client.connect()
      try {
        await client.query(`create database ${pg.escapeIdentifier(name)}`)
      } finally {
        await client.end()
      }
      const databaseUrl = postgresUrl.replace(/[^/]+$/, name)
      await migrateAll({ databaseUrl, redisUrl: undefined }, new Events())
      return databaseUrl
    },
    async stop() {
      await Promise.all([postgres.stop(), redis.stop()])
    },
  }
}

/** In a folder that goes with it, also when it is interrupted before it runs. From then on its keeper sees to that. */
export async function startPostgres(name: string) {
  const folder = await mkdtemp(path.join(os.tmpdir(), `sandman-${name}-`))
  try {
    return await startEmbeddedPostgres({ folder, disposable: true })
  } catch (error) {
    await rm(folder, { recursive: true, force: true, maxRetries: 10 }) // what makes it may have a last breath in it
    throw error
  }
}

async function startRedis() {
  return startRedisServer(await findRedisServer())
}
