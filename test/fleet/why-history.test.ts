import { randomUUID } from 'node:crypto'
import { sql } from 'kysely'
import { describe, expect, test } from 'vitest'
import { printWhy } from '../../src/cli/why.ts'
import { pruneEvents } from '../../src/db/prune.ts'
import { findWhy } from '../../src/fleet/why.ts'
import type { Cause } from '../../src/sandbox/causes.ts'
import { ledgerOn } from '../support/ledger.ts'
import { done, LOOKS, named, useWhy, type WhyTest } from './why-setup.ts'

const DAY_MS = 86_400_000

describe('from the database', () => {
  let ledger: WhyTest['ledger']
  let clock: WhyTest['clock']
  let why: WhyTest['why']
  let perform: WhyTest['perform']
  useWhy((given) => {
    ;({ ledger, clock, why, perform } = given)
  })

  /** A sandbox that came from elsewhere, and what was written of that. */
  const bringIn = async () => {
    const id = `sbx_${randomUUID().replaceAll('-', '')}`
    await sql`insert into sandman.sandboxes
        (id, fleet, backend, can_pause, can_snapshot, state, state_changed_at, provider_ref, created_at, last_active_at)
      select ${id}, ${ledger.fleet}, 'test', true, true, 'running', now, ${`box of ${id}`}, now, now
      from (select ${clock.stoppedAt()}::timestamptz as now) as given`.execute(ledger.db)
    return id
  }
  const takeOver = (id: string) =>
    sql`insert into sandman.events (sandbox_id, at, type, to_state, fence)
      values (${id}, ${clock.stoppedAt()}, 'adopted', 'running', 0)`.execute(ledger.db)
  const loseCheckpoints = (id: string, count: number) =>
    sql`insert into sandman.events (sandbox_id, at, type, detail)
      select ${id}, ${clock.stoppedAt()}, 'checkpoint_lost', jsonb_build_object('ref', n::text)
      from generate_series(1, ${count}::int) as n`.execute(ledger.db)

  test('of a history that was pruned, what is left is told, with who had asked, and that it is not all', async () => {
    const { id } = await ledger.at('running')
    const cause: Cause = { by: 'sweeper', found: 'instance_missing', ref: 'box-1', looks: LOOKS }
    const { operation } = await ledger.ask(id, 'kill', { options: { only: 'lost' }, cause })
    await perform(operation.id, { ...done, rest: { state: 'gone', reason: 'expired' }, evidence: { seen: 'absent' } })
    expect(await why(id)).toMatchObject({ isComplete: true })

    clock.advance(100 * DAY_MS)
    const { forgotten } = await pruneEvents(ledger.db, {
      fleet: ledger.fleet,
      olderThanMs: 90 * DAY_MS,
      max: 100,
      clock,
    })
    expect(forgotten).toBe(3)
    const told = await why(id)
    expect(told.isComplete).toBe(false)
    expect(named(printWhy(told))).toMatchInlineSnapshot(`
      "sbx_1 has been gone since 2026-03-01 12:00:02Z: its provider has nothing of it any more: its time-to-live ended, or somebody deleted it there; the sweeper had asked to end it if it is lost, because it should be there, and its provider has nothing of it (box-1).

      Not all of its history is told here: the rest is not kept, or is too much.
      2026-03-01 12:00:02Z  It is gone: its provider has nothing of it any more: its time-to-live ended, or somebody deleted it there. The sweeper had asked to end it if it is lost, because it should be there, and its provider has nothing of it (box-1). Look 1, on 2026-03-01 12:00:00Z at here: asked for box-1, which no list shows, and saw that there is no such instance. Look 2, on 2026-03-01 12:02:00Z at here: asked for box-1, and saw that it is lost: it was deleted. Its provider showed nothing of it."
    `)
  })

  test('of a history that is too long, the newest is told, and the last state change however old it is', async () => {
    const { id } = await ledger.at('running')
    clock.advance(1_000)
    await loseCheckpoints(id, 600)
    const told = await why(id)
    expect(told.isComplete).toBe(false)
    expect(told.story).toHaveLength(501)
    expect(told.story[0]?.text).toMatch(/^It came to life, and runs\. An app had asked to make it\./)
    expect(told.story.at(-1)?.text).toBe('The sweeper saw that the checkpoint 600 is not there, or not whole.')
    expect(told.answer).toMatch(/has been running since 2026-03-01 12:00:00Z: an app asked to make it\.$/)
  })

  test('of a sandbox that was imported, no more is told than is known', async () => {
    const id = await bringIn()
    const without = await why(id)
    expect(without).toMatchObject({ story: [], isComplete: false })
    expect(named(without.answer)).toMatchInlineSnapshot(
      `"sbx_1 has been running since 2026-03-01 12:00:00Z: how it came to that is not kept."`,
    )

    await takeOver(id)
    const told = await why(id)
    expect(told.isComplete).toBe(true)
    expect(named(printWhy(told))).toMatchInlineSnapshot(`
      "sbx_1 has been running since 2026-03-01 12:00:00Z: it was taken over like that.

      2026-03-01 12:00:00Z  It was taken over, running."
    `)
  })

  test('a gap behind how it came into being is not called a whole history', async () => {
    const id = await bringIn()
    await takeOver(id)
    await loseCheckpoints(id, 499)
    expect(await why(id)).toMatchObject({ isComplete: true, story: { length: 500 } })
    await loseCheckpoints(id, 100)
    expect(await why(id)).toMatchObject({
      isComplete: false,
      story: { length: 501, 0: { text: 'It was taken over, running.' } },
    })
  })

  test('of a sandbox that there is not, or that is of another fleet, nothing is told', async () => {
    const { id } = await ledger.at('running')
    const stranger = ledgerOn(ledger.db, { fleet: randomUUID(), clock })
    expect(await findWhy(ledger.db, { fleet: ledger.fleet, id: 'sbx_nothing' })).toBeUndefined()
    expect(await findWhy(ledger.db, { fleet: stranger.fleet, id })).toBeUndefined()
  })
})
