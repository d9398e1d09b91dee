import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { runningClock as clock } from '../../src/clock.ts'
import { endExecution } from '../../src/db/executions.ts'
import { recordFirstLooks, recordLook } from '../../src/db/findings.ts'
import { bucketOf, quantile, SECONDS } from '../../src/fleet/histogram.ts'
import { shared } from '../../src/fleet/share.ts'
import { createFleet } from '../../src/index.ts'
import { failure } from '../../src/sandbox/failures.ts'
import { describeWorld } from '../support/describe-world.ts'
import { ledgerOn } from '../support/ledger.ts'

describeWorld(
  'the overview',
  (world) => {
    /** A fleet of its own in the same database, so that nothing is a few seconds old. */
    const look = async () => {
      const fleet = createFleet(world().place)
      try {
        return await fleet.overview()
      } finally {
        await fleet.close()
      }
    }
    const ledger = () => ledgerOn(world().db, { fleet: world().place.fleet, clock })

    test('of an empty fleet is empty, and well', async () => {
      const overview = await look()
      expect(overview).toMatchObject({ counts: [], stuck: [], stuckCount: 0, atRisk: [], failing: [], sweeps: [] })
      expect(overview.health.ready).toBe(true)
      expect(overview.resumes).toEqual({ succeeded: 0, failed: [], p50Ms: null, p95Ms: null })
      expect(overview.queues?.map(({ oldestMs }) => oldestMs)).toEqual(overview.queues?.map(() => null))
    })

    test('says how long the first in line has waited', async () => {
      const { sandbox } = await world().fleet.spawn({ backend: 'test' })
      const { queues, counts } = await look()
      const spawns = queues?.find(({ name }) => name === 'spawn')
      expect(spawns).toMatchObject({ waiting: 1, active: 0, oldestMs: expect.any(Number) })
      expect(counts).toEqual([
        { state: 'provisioning', backend: 'test', count: 1, oldestSince: sandbox.stateChangedAt },
      ])
    })

    test('names operations that have been at work for too long, and not pauses that wait for what runs', async () => {
      const { db } = world()
      const { id } = await ledger().at('running')
      await ledger().ask(id, 'kill')
      const busy = await ledger().at('running')
      const execution = await ledger().execute(busy.id)
      await ledger().ask(busy.id, 'pause', { options: { if_busy: 'wait' } })
      await sql`update sandman.sandboxes set state_changed_at = now() - interval '1 hour' where id in (${id}, ${busy.id})`.execute(
        db,
      )
      const { stuck, stuckCount } = await look()
      expect(stuck).toMatchObject([{ sandboxId: id, state: 'killing', kind: 'kill', attempt: 0, lastError: null }])
      expect(stuckCount).toBe(1)
      await endExecution(db, { id: execution.id, end: { status: 'cancelled', reason: 'cancelled' }, clock })
      expect((await look()).stuckCount).toBe(2)
    })

    test('names what failed last, with why', async () => {
      const { sandbox, operation } = await ledger().spawn()
      const { attempt } = await ledger().begin(operation.id)
      const error = failure('quota_exceeded', 'There is no room.')
      await ledger().end(attempt, { status: 'failed', error, rest: { state: 'gone', reason: 'spawn_failed' } })
      expect((await look()).failing).toMatchObject([
        { sandboxId: sandbox.id, operationId: operation.id, kind: 'spawn', error: { errorType: 'quota_exceeded' } },
      ])
    })

    test('names what may be lost soon, why, and what can be done', async () => {
      const { db, place } = world()
      const missing = await ledger().at('suspended')
      const ending = await ledger().at('running')
      const wanted = await ledger().at('running')
      await sql`update sandman.sandboxes set expires_at = now() + interval '3 minutes' where id in (${ending.id}, ${wanted.id})`.execute(
        db,
      )
      await sql`update sandman.sandboxes set hard_ttl_ms = extract(epoch from now() + interval '3 minutes' - created_at) * 1000 where id = ${wanted.id}`.execute(
        db,
      )
      const { rows } = await sql<{
        ref: string
      }>`select provider_ref as ref from sandman.checkpoints where id = ${missing.checkpoint_id}`.execute(db)
      const key = {
        fleet: place.fleet,
        backend: 'test',
        kind: 'checkpoint_missing',
        ref: rows[0]?.ref as string,
      } as const
      const seen = { place: 'an account', asked: 'it', saw: 'it is missing: gone from the bucket' }
      await recordFirstLooks(db, [{ ...key, ...seen, sandboxId: missing.id }], { againMs: 60_000, clock })
      const once = await look()
      expect(once.atRisk.map(({ sandboxId, why }) => [sandboxId, why])).toEqual([
        [missing.id, 'checkpoint_missing'],
        [ending.id, 'expires_soon'],
      ])
      expect(once.atRisk[0]?.text).toMatch(
        /^Its provider does not show what it would be resumed from at an account: it is missing: gone from the bucket\. It is looked at again after /,
      )
      expect(once.atRisk[1]?.text).toMatch(
        /^Its provider ends or pauses it at .*, and its time was not renewed\. .*queue reaper/,
      )
      expect(once.orphans.find(({ kind }) => kind === 'checkpoint_missing')).toMatchObject({
        direction: 'missing_there',
        open: 1,
      })
      await recordLook(db, key, seen, clock)
      expect((await look()).atRisk[0]?.text).toContain('That was seen twice')
    })
  },
  { worker: false },
)

describe('a look that is shared', () => {
  test('is read again after it has failed, and by the next who asks', async () => {
    let reads = 0
    const read = shared(60_000, async () => {
      if (++reads === 1) throw new Error('away')
      return reads
    })
    await expect(Promise.all([read(), read()])).rejects.toThrow('away')
    expect(await Promise.all([read(), read()])).toEqual([2, 2])
    expect(await read()).toBe(2)
  })
})

describe('a quantile of buckets', () => {
  const bucketsOf = (values: number[]) => {
    const buckets = new Map<number, number>()
    for (const value of values) {
      const upTo = Number(bucketOf(value).replace('+Inf', 'Infinity'))
      buckets.set(upTo, (buckets.get(upTo) ?? 0) + 1)
    }
    return buckets
  }

  test('is within the bucket that the value is in', () => {
    const values = Array.from({ length: 1_000 }, (_, nth) => ((nth * 7919) % 1_000) / 10)
    for (const share of [0.01, 0.5, 0.95, 0.99]) {
      const exact = values.toSorted((a, b) => a - b)[Math.ceil(share * 1_000) - 1] as number
      const told = quantile(bucketsOf(values), share) as number
      expect(bucketOf(told)).toBe(bucketOf(exact))
    }
  })

  test('of none is null, and beyond the last bound that bound', () => {
    expect(quantile(new Map(), 0.5)).toBeNull()
    expect(quantile(bucketsOf([1e9]), 0.5)).toBe(SECONDS.at(-1))
  })
})
