import { readFile } from 'node:fs/promises'
import path from 'node:path'
import type { KubernetesObject, V1Secret } from '@kubernetes/client-node'
import { sql } from 'kysely'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { endExecution, startExecution } from '../../src/db/executions.ts'
import { QUEUE_OF_KIND } from '../../src/queues/catalog.ts'
import { streamsQueue } from '../../src/queues/streams.ts'
import { createDatabase, type TestDatabase } from '../support/database.ts'
import { explaining } from '../support/explain.ts'
import { type Ledger, ledgerOn } from '../support/ledger.ts'
import { DEPLOY, readManifest, readSettings } from '../support/manifests.ts'

type Trigger = { name: string; type: string; metadata: { query: string; targetQueryValue: string } }
type ScaledObject = KubernetesObject & {
  spec: { minReplicaCount: number; triggers: (Trigger & { authenticationRef: { name: string } })[] }
}
type TriggerAuthentication = KubernetesObject & {
  spec: { secretTargetRef: { parameter: string; name: string; key: string }[] }
}

const { SANDMAN_FLEET: fleet = '' } = await readSettings()
const scaled = await readManifest<ScaledObject>('ScaledObject', 'sandman-worker')
const trigger = (name: string) => {
  const found = scaled.spec.triggers.find((each) => each.name === name)
  if (!found) throw new Error(`there is no trigger ${name}`)
  return { query: found.metadata.query, target: Number(found.metadata.targetQueryValue) }
}
const [operations, executions] = [trigger('operations'), trigger('executions')]

let database: TestDatabase
let ledger: Ledger
beforeAll(async () => {
  database = await createDatabase()
})
afterAll(() => database?.drop())

/** As KEDA asks: text, and the first column of the first row. */
async function depths(): Promise<{ operations: number; executions: number }> {
  const ask = async (query: string) => {
    const { rows } = await database.pool.query<Record<string, string>>(query)
    return Number(Object.values(rows[0] ?? {})[0])
  }
  return { operations: await ask(operations.query), executions: await ask(executions.query) }
}

describe('the depth', () => {
  beforeEach(() => {
    ledger = ledgerOn(database.db, { fleet, clock })
    return () => ledger.expectInvariants()
  })

  test('counts an operation from its request until it is settled, and nothing that rests', async () => {
    expect(await depths()).toEqual({ operations: 0, executions: 0 })
    const { operation } = await ledger.spawn()
    expect(await depths()).toEqual({ operations: 1, executions: 0 })
    const taken = await ledger.begin(operation.id)
    expect(await depths()).toEqual({ operations: 1, executions: 0 })
    const life = { providerRef: 'vm-1', incarnation: 'i-1' }
    await ledger.end(taken.attempt, { status: 'succeeded', outcome: 'done', rest: { state: 'running', ...life } })
    expect(await depths()).toEqual({ operations: 0, executions: 0 })
    for (const state of ['running', 'suspended', 'gone'] as const) await ledger.at(state)
    expect(await depths()).toEqual({ operations: 0, executions: 0 })
  })

  test('does not count what stands in line behind another operation of its sandbox', async () => {
    const { id } = await ledger.at('running')
    for (const kind of ['pause', 'resume', 'kill'] as const) await ledger.ask(id, kind)
    expect((await ledger.sandbox(id)).waiting).toBeGreaterThan(0)
    expect(await depths()).toEqual({ operations: 1, executions: 0 })
    await ledger.drain(id)
    expect(await depths()).toEqual({ operations: 0, executions: 0 })
  })

  test('counts an execution as work until it has begun, and as one to be followed until it has ended', async () => {
    const { id: sandboxId, incarnation } = await ledger.at('running')
    const { id } = await ledger.execute(sandboxId, { command: ['true'] })
    expect(await depths()).toEqual({ operations: 1, executions: 1 })
    expect(await startExecution(database.db, { id, incarnation: String(incarnation), clock })).toBeDefined()
    expect(await depths()).toEqual({ operations: 0, executions: 1 })
    const end = { status: 'succeeded', reason: 'completed', exitCode: 0 } as const
    expect(await endExecution(database.db, { id, end, clock })).toBeDefined()
    expect(await depths()).toEqual({ operations: 0, executions: 0 })
  })

  test('is that of one fleet', async () => {
    const other = ledgerOn(database.db, { fleet: 'another', clock })
    await other.spawn()
    await other.execute((await other.at('running')).id, { command: ['true'] })
    expect(await depths()).toEqual({ operations: 0, executions: 0 })
  })

  test('is told to a role that may count, and read nothing else', async () => {
    const page = await readFile(path.join(DEPLOY, '../../docs/running-on-kubernetes.md'), 'utf8')
    const statements = /```sql\n([\s\S]+?)```/.exec(page)?.[1] ?? ''
    const client = await database.pool.connect()
    try {
      await client.query('begin')
      await client.query(statements)
      await client.query('set local role sandman_autoscaling')
      for (const { query } of [operations, executions]) expect((await client.query(query)).rows).toHaveLength(1)
      await client.query('savepoint before')
      for (const secret of ['select spec from sandman.sandboxes', 'select command from sandman.executions']) {
        await expect(client.query(secret)).rejects.toThrow('permission denied')
        await client.query('rollback to before')
      }
    } finally {
      await client.query('rollback')
      client.release()
    }
  })
})

/** Enough that reading all of it every few seconds would be noticed. */
const ROWS = 50_000
const OPEN = 50

test(`asking for it costs what is open, and not what there is: ${ROWS} sandboxes, and as many executions`, async () => {
  const large = await createDatabase()
  const explained = explaining(large.url)
  try {
    await fill(large)
    for (const { query } of [operations, executions]) await sql.raw(query).execute(explained.db)
    expect(explained.costs).toHaveLength(2)
    for (const { scannedWhole, rows } of explained.costs) {
      expect(scannedWhole).toEqual([])
      expect(rows).toBeGreaterThanOrEqual(OPEN)
      expect(rows).toBeLessThanOrEqual(2 * OPEN)
    }
  } finally {
    await explained.close()
    await large.drop()
  }
})

test('a worker is asked to do what it does at a time, and to follow half of what it can', () => {
  const atATime = Object.values(QUEUE_OF_KIND).map(({ concurrency }) => concurrency)
  expect(operations.target).toBe(Math.min(...atATime))
  expect(executions.target).toBe(streamsQueue.concurrency / 2)
  expect(scaled.spec.minReplicaCount).toBeGreaterThan(0)
})

test('the queries name the fleet of the settings, wherever they name one', () => {
  for (const { query } of [operations, executions]) {
    const named = [...query.matchAll(/fleet = '([^']*)'/g)].map(([, name]) => name)
    expect(named).toEqual(query.match(/from /g)?.map(() => fleet))
  }
})

test('KEDA is told how to connect by a secret that has all of it', async () => {
  const { stringData = {}, metadata } = await readManifest<V1Secret>('Secret', 'sandman-autoscaling')
  for (const { type, authenticationRef } of scaled.spec.triggers) {
    expect(type).toBe('postgresql')
    const { spec } = await readManifest<TriggerAuthentication>('TriggerAuthentication', authenticationRef.name)
    const parameters = spec.secretTargetRef.map(({ parameter }) => parameter)
    expect(parameters.sort()).toEqual(['dbName', 'host', 'password', 'port', 'sslmode', 'userName'])
    for (const { name, key } of spec.secretTargetRef) {
      expect(name).toBe(metadata?.name)
      expect(Object.keys(stringData)).toContain(key)
    }
  }
})

/** Rows as they are after years: without the triggers and the knots, which would take as long to check. */
async function fill({ pool }: TestDatabase): Promise<void> {
  const client = await pool.connect()
  try {
    await client.query('begin')
    await client.query('set local session_replication_role = replica')
    await client.query(`
      insert into sandman.sandboxes (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, operation_id, ring_at,
        tail_id, tail_fingerprint, gone_reason, gone_at, created_at, last_active_at)
      select 'sbx_' || n, '${fleet}', 'test', true, true, case when is_open then 'provisioning' else 'gone' end, now(),
        case when is_open then 'op_' || n end, case when is_open then now() end, case when is_open then 'op_' || n end,
        case when is_open then 'x' end, case when not is_open then 'killed' end, case when not is_open then now() end, now(), now()
      from generate_series(1, ${ROWS}) as n, lateral (select n <= ${OPEN} as is_open) as which`)
    await client.query(`
      insert into sandman.executions (id, fleet, sandbox_id, status, reason, exit_code, created_at, ended_at, ring_at)
      select 'exe_' || n, '${fleet}', 'sbx_' || n, case when is_open then 'queued' else 'succeeded' end,
        case when not is_open then 'completed' end, case when not is_open then 0 end, now(), case when not is_open then now() end,
        case when is_open then now() end
      from generate_series(1, ${ROWS}) as n, lateral (select n <= ${OPEN} as is_open) as which`)
    await client.query('commit')
    await client.query('analyze')
  } finally {
    client.release()
  }
}
