import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { claimChecks } from '../../src/db/checks.ts'
import { findViolations } from '../../src/db/invariants.ts'
import { listSandboxes } from '../../src/db/sandboxes.ts'
import { CANDIDATES_MAX, type Filter } from '../../src/db/tags.ts'
import { Events } from '../../src/events.ts'
import { createFleet, type Fleet } from '../../src/fleet/fleet.ts'
import { readOverview } from '../../src/fleet/overview.ts'
import { openStore } from '../../src/queues/bullmq/open-store.ts'
import { Producer } from '../../src/queues/bullmq/producer.ts'
import type { TestDatabase } from '../support/database.ts'
import { explaining } from '../support/explain.ts'
import { describeLargeConsole } from './large-console.ts'
import { createLargeFleet, fleet, idOf, ROWS } from './large-fleet.ts'

describe(`in a database of ${ROWS} sandboxes`, () => {
  let database: TestDatabase
  let explained: ReturnType<typeof explaining>
  let large: Fleet
  beforeAll(async () => {
    database = await createLargeFleet()
    explained = explaining(database.url)
    large = createFleet({ databaseUrl: database.url, fleet })
  }, 120_000)
  afterAll(async () => {
    await large?.close()
    await explained?.close()
    await database?.drop()
  })

  describeLargeConsole(() => database)

  const PAGE = 100

  /** What the filter means, said the slow way. */
  async function expected(condition: string, before = 'sbx_g'): Promise<string[]> {
    const { rows } = await database.pool.query<{ id: string }>(
      `select id from sandman.sandboxes where fleet = '${fleet}' and id < '${before}' and ${condition} order by id desc limit ${PAGE}`,
    )
    return rows.map(({ id }) => id)
  }

  test.each<[string, Filter, string, number]>([
    ['all of them', {}, 'true', 4],
    ['a common state', { state: 'suspended' }, `state = 'suspended'`, 4],
    ['a rare state', { state: 'killing' }, `state = 'killing'`, 4],
    ['a state that none is in', { state: 'resuming' }, `state = 'resuming'`, 0],
    ['a backend', { backend: 'e2b' }, `backend = 'e2b'`, 4],
    ['a rare backend', { backend: 'rare' }, `backend = 'rare'`, 4],
    ['the beginning of an id', { idPrefix: 'sbx_00000000a' }, `id like 'sbx\\_00000000a%'`, 4],
    ['a whole id', { idPrefix: idOf(77) }, `id = '${idOf(77)}'`, 4],
    ['a value that many have', { metadata: { team: 'team-1' } }, `metadata ->> 'team' = 'team-1'`, 4],
    ['a value that few have', { metadata: { pinned: true } }, `metadata ? 'pinned'`, 4],
    ['a number', { metadata: { app: 7 } }, `metadata -> 'app' = '7'`, 4],
    ['a number as text', { metadata: { app: '7' } }, `metadata -> 'app' = '7'`, 4],
    ['a state and a backend', { state: 'running', backend: 'docker' }, `state = 'running' and backend = 'docker'`, 12],
    [
      'two values of which one is rare',
      { metadata: { team: 'team-0', pinned: true } },
      `metadata ->> 'team' = 'team-0' and metadata ? 'pinned'`,
      8,
    ],
    [
      'everything at once',
      { state: 'suspended', backend: 'e2b', idPrefix: 'sbx_00000000', metadata: { team: 'team-0', odd: false } },
      `state = 'suspended' and backend = 'e2b' and metadata ->> 'team' = 'team-0' and metadata ->> 'odd' = 'false' and id < '${idOf(0x10000)}'`,
      60,
    ],
  ])('%s: a page reads what it shows, and what its rarest part has', async (_what, filter, condition, mostEach) => {
    const asked = { fleet, max: PAGE, ...filter }
    const first = await expected(condition)
    const { found, cutOffAt } = await listSandboxes(database.db, asked)
    expect(found.map(({ sandbox }) => sandbox.id)).toEqual(first)
    expect(cutOffAt).toBeUndefined()
    for (const before of [undefined, first.at(-1)]) {
      explained.costs.length = 0
      await listSandboxes(explained.db, { ...asked, before })
      expect(explained.costs[0]?.scannedWhole).toEqual([])
      expect(explained.costs[0]?.rows).toBeLessThanOrEqual(mostEach * Math.max(1, first.length))
    }
    const second = await listSandboxes(database.db, { ...asked, before: first.at(-1) })
    if (first.length > 0)
      expect(second.found.map(({ sandbox }) => sandbox.id)).toEqual(await expected(condition, first.at(-1)))
  })

  test('every page of it is there, each sandbox once', async () => {
    const seen = new Set<string>()
    let pages = 0
    let cursor: string | undefined
    do {
      const { items, nextCursor } = await large.list({ state: 'running', limit: 500, ...(cursor && { cursor }) })
      for (const { id } of items) seen.add(id)
      cursor = nextCursor ?? undefined
      pages++
    } while (cursor)
    expect(seen.size).toBe((ROWS * 6) / 100 - ROWS / 100)
    expect(pages).toBe(Math.floor(seen.size / 500) + 1)
  })

  test('filters that never meet are not read to their end: the page is empty, and says where to go on', async () => {
    const never = { metadata: { team: 'team-0', odd: true } } as const
    explained.costs.length = 0
    await listSandboxes(explained.db, { fleet, max: PAGE, ...never })
    expect(explained.costs[0]?.rows).toBeLessThanOrEqual(6 * CANDIDATES_MAX)
    const first = await large.list(never)
    expect(first).toEqual({ items: [], nextCursor: expect.any(String) })
    const second = await large.list({ ...never, cursor: first.nextCursor as string })
    expect(second.items).toEqual([])
    expect(second.nextCursor?.localeCompare(first.nextCursor as string)).toBe(-1)
    // At the end of what there is, it says so.
    expect(await large.list({ ...never, cursor: idOf(1_000) })).toEqual({ items: [], nextCursor: null })
  })

  test('two that share a prefix and a neighbour in the same database are told apart', async () => {
    const { items } = await large.list({ id: idOf(9).slice(0, 16) })
    expect(items.map(({ id }) => id)).toEqual([])
    const { items: own } = await large.list({ id: idOf(8).slice(0, 16) })
    expect(own.map(({ id }) => id)).toEqual([idOf(8)])
  })

  test('the overview says what there is, with a fixed number of statements, each of which reads an index', async () => {
    const producer = new Producer(
      openStore({ databaseUrl: database.url, redisUrl: undefined, fleet, role: 'producer', events: new Events() }),
    )
    explained.costs.length = 0
    await readOverview({ db: explained.db, producer, fleet, clock, limits: {} }).catch((error: unknown) => {
      if (explained.costs.length === 0) throw error
    })
    await producer.close()
    const small = ['migrations', 'sweeps', 'tallies'] // of which there are seven days at most
    expect(explained.costs.flatMap(({ scannedWhole }) => scannedWhole).filter((name) => !small.includes(name))).toEqual(
      [],
    )
    expect(explained.costs.length).toBe(STATEMENTS)
    // All that live are counted, once; everything else is a page of something.
    const [most = 0, ...others] = explained.costs.map(({ rows }) => rows).toSorted((a, b) => b - a)
    expect(most).toBeLessThanOrEqual(ROWS / 2)
    expect(Math.max(...others)).toBeLessThanOrEqual(10_000)

    const overview = await large.overview()
    const counted = await database.pool.query<{ state: string; count: number }>(
      `select state, count(*) from sandman.sandboxes where fleet = '${fleet}' and state <> 'gone' group by state`,
    )
    for (const { state, count } of counted.rows)
      expect(overview.counts.filter((row) => row.state === state).reduce((sum, row) => sum + row.count, 0)).toBe(count)
    expect(new Set(overview.counts.map(({ state }) => state))).toEqual(new Set(counted.rows.map(({ state }) => state)))
    for (const list of [overview.stuck, overview.atRisk, overview.failing]) expect(list).toHaveLength(20)
    expect(overview.stuckCount).toBeGreaterThan(20)
    // A day of five minutes each; the oldest of them may have become older than a day since they were made.
    const [failed, ...noOthers] = overview.resumes.failed
    expect(noOthers).toEqual([])
    expect(failed?.errorType).toBe('sandbox_unreachable')
    expect([287, 288]).toContain(failed?.count)
    expect(overview.orphans.map(({ direction }) => direction)).toEqual([
      'missing_there',
      'missing_there',
      'unknown_here',
      'unknown_here',
    ])
    expect(overview.trends[0]?.values).toHaveLength(96)
  })

  test('a page of sandboxes is checked for what must always be true by reading their own rows', async () => {
    const sandboxIds = Array.from({ length: 50 }, (_, nth) => idOf(50_000 + nth))
    explained.costs.length = 0
    await findViolations(explained.db, { sandboxIds })
    await claimChecks(explained.db, { fleet, max: 50, clock }).catch(() => {})
    for (const { scannedWhole, rows } of explained.costs) {
      expect(scannedWhole.filter((table) => ['sandboxes', 'operations', 'checkpoints'].includes(table))).toEqual([])
      expect(rows).toBeLessThan(5_000)
    }
  })

  test('however many look at once, it is read once', async () => {
    const overviews = await Promise.all(Array.from({ length: 50 }, () => large.overview()))
    expect(new Set(overviews).size).toBe(1)
  })
})

/** Two for health, of which one would ask once more if it got an answer; and nine for all else. */
const STATEMENTS = 11
