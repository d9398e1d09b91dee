import { sql } from 'kysely'
import pg from 'pg'
import { withDeadline } from '../deadline.ts'
import { PROBED } from '../pg-pool.ts'
import type { Db } from './pool.ts'

/** A notice carries at most 8,000 bytes, and an id has 30. */
export const IDS_PER_NOTICE = 200

function channelOf(fleet: string): string {
  return `sandman.${fleet}`
}

/**
 * Tells whoever listens that there is news of operations or executions. Not part of settling: a notice takes a lock that all of the database's
 * notices share until commit, and a lost one costs a moment, because whoever waits also looks by itself.
 */
export async function announce(db: Db, { fleet, ids }: { fleet: string; ids: string[] }): Promise<void> {
  await sql`select pg_notify(${channelOf(fleet)}, ${ids.join(',')})`.execute(db)
}

const CONNECT_MS = 5_000
const CLOSE_MS = 1_000
const RECONNECT_MS = [100, 5_000] as const

export type Listener = { close(): Promise<void> }

type Listening = {
  databaseUrl: string
  fleet: string
  /** There is news of these. */
  heard(ids: string[]): void
  /** The line is up, for the first time or again: whatever was said before was not heard. */
  connected(): void
  lost(error: unknown): void
}

/** Listens on a connection of its own, and makes a new one whenever it is lost. */
export function listen({ databaseUrl, fleet, heard, connected, lost }: Listening): Listener {
  let client: pg.Client | undefined
  let timer: NodeJS.Timeout | undefined
  let isClosed = false
  let isDown = false
  let pauseMs: number = RECONNECT_MS[0]

  const connect = async (): Promise<void> => {
    const fresh = new pg.Client({
      connectionString: databaseUrl,
      application_name: 'sandman listen',
      connectionTimeoutMillis: CONNECT_MS,
      ...PROBED,
    })
    let isOver = false
    const over = (error: unknown): void => {
      if (isOver) return
      isOver = true
      fresh.end().catch(() => {})
      if (isClosed) return
      if (!isDown) lost(error) // once, however often it cannot be made anew
      isDown = true
      timer = setTimeout(() => void connect(), pauseMs)
      pauseMs = Math.min(pauseMs * 2, RECONNECT_MS[1])
    }
    fresh.on('error', over)
    fresh.on('end', () => over(new Error('the connection that listens has ended')))
    fresh.on('notification', ({ payload }) => heard((payload ?? '').split(',')))
    client = fresh
    try {
      await fresh.connect()
      await fresh.query(`listen ${pg.escapeIdentifier(channelOf(fleet))}`)
      pauseMs = RECONNECT_MS[0]
      isDown = false
      if (!isClosed) connected()
    } catch (error) {
      over(error)
    }
  }
  void connect() // which does not fail: it tries again
  return {
    async close() {
      isClosed = true
      clearTimeout(timer)
      // Not for long: a server that is away would keep us for the whole of its deadline.
      await withDeadline(CLOSE_MS, 'the connection that listens', async () => client?.end()).catch(() => {})
    },
  }
}
