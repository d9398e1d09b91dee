import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Events } from '../../src/events.ts'
import { openFleet } from '../../src/fleet/open-fleet.ts'
import { openStore } from '../../src/queues/bullmq/open-store.ts'
import { createApp } from '../../src/web/app.ts'
import type { TestDatabase } from '../support/database.ts'
import { HERE } from '../support/here.ts'
import { countingDb } from '../web/console/counting.ts'
import { idOf, fleet as name, ROWS } from './large-fleet.ts'

/** The console of a large fleet, whose database somebody else has made: that takes longer than all of this. */
export function describeLargeConsole(database: () => TestDatabase): void {
  describe('the console', () => {
    let counting: ReturnType<typeof countingDb>
    let fleet: ReturnType<typeof openFleet>
    let app: ReturnType<typeof createApp>
    beforeAll(async () => {
      counting = countingDb(database().url)
      const events = new Events()
      const store = openStore({
        databaseUrl: database().url,
        redisUrl: undefined,
        fleet: name,
        role: 'producer',
        events,
      })
      fleet = openFleet({ databaseUrl: database().url, fleet: name }, { handle: counting.handle, store, events })
      app = createApp(fleet)
    })
    afterAll(async () => {
      await fleet?.close()
    })

    /** A page, the ids on it, the links to those beside it, and what it cost. */
    async function get(path: string) {
      counting.forget()
      const answer = await app.request(`http://127.0.0.1${path}`, { headers: { host: '127.0.0.1' } }, HERE)
      const page = await answer.text()
      const ids = [...page.matchAll(/<tr role="row" id="row-(sbx_[0-9a-f]{26})"/g)].map(([, id]) => id)
      const link = (rel: string) => new RegExp(`rel="${rel}" href="([^"]+)"`).exec(page)?.[1]?.replaceAll('&amp;', '&')
      return {
        status: answer.status,
        location: answer.headers.get('location'),
        page,
        ids,
        older: link('next'),
        newer: link('prev'),
        statements: counting.statements(),
      }
    }
    const newest = (count: number, wanted: (nth: number) => boolean) =>
      Array.from({ length: ROWS }, (_, nth) => ROWS - 1 - nth)
        .filter((nth) => nth % 10 !== 9 && wanted(nth)) // those are a neighbour's
        .slice(0, count)
        .map(idOf)

    test('pages forward and back, each with the same few statements, wherever it is', async () => {
      const expected = newest(250, () => true)
      let page = await get('/sandboxes')
      const walked = [page]
      for (let nth = 1; nth < 5; nth++) {
        page = await get(page.older as string)
        walked.push(page)
      }
      expect(walked.flatMap(({ ids }) => ids)).toEqual(expected)
      expect(walked.map(({ statements }) => statements.length)).toEqual([1, 1, 1, 1, 1])
      for (let nth = 3; nth >= 0; nth--) {
        page = await get(page.newer as string)
        expect(page.ids).toEqual(walked[nth]?.ids)
      }
      expect(page.newer).toBeUndefined()
      const last = await get(`/sandboxes?cursor=${idOf(3)}`)
      expect(last.ids).toEqual([idOf(2), idOf(1), idOf(0)])
      expect(last.older).toBeUndefined()
      expect(last.statements).toHaveLength(1)
    })

    test.each([
      ['state=killing', (nth: number) => nth % 1_000 === 500],
      ['backend=rare', (nth: number) => nth % 1_000 === 2],
      ['metadata=app%3D7', (nth: number) => nth % 1_000 === 7],
      ['metadata=team%3Dteam-1&state=running', (nth: number) => nth % 2 === 1 && nth % 100 >= 94],
      ['id=sbx_0000000001', (nth: number) => idOf(nth).startsWith('sbx_0000000001')],
    ])('finds by %s, and keeps to it from page to page', async (query, wanted) => {
      const first = await get(`/sandboxes?${query}`)
      expect(first.ids).toEqual(newest(50, wanted))
      expect(first.statements).toHaveLength(1)
      const rest = newest(100, wanted).slice(50)
      if (rest.length > 0) expect((await get(first.older as string)).ids).toEqual(rest)
    })

    test('who pastes an id is taken to its page, and who looks for nonsense is told', async () => {
      expect((await get(`/sandboxes?id=${idOf(5)}`)).location).toBe(`/sandboxes/${idOf(5)}`)
      const [op, exe] = [`op_${'0'.repeat(26)}`, `exe_${'0'.repeat(26)}`]
      expect((await get(`/sandboxes?id=+${op}+`)).location).toBe(`/operations/${op}`)
      expect((await get(`/sandboxes?id=${exe}`)).location).toBe(`/executions/${exe}`)
      for (const query of ['id=hello', 'metadata=hello', 'metadata=%3D5', `metadata=${'x'.repeat(300)}%3D1`]) {
        const { status, page, ids } = await get(`/sandboxes?${query}`)
        expect([status, ids]).toEqual([422, []])
        expect(page).toContain('Not found like this')
      }
      expect((await get(`/operations/${op}`)).status).toBe(404)
      expect((await get(`/sandboxes/${idOf(ROWS + 1)}`)).status).toBe(404)
      expect((await get('/sandboxes/nonsense')).status).toBe(404)
      expect((await get('/sandboxes?id=sbx_ffffff')).page).toContain('No sandbox is like this')
    })

    test('the front page and the page of a sandbox cost a fixed number of statements, and many who look cost no more', async () => {
      const front = await get('/')
      expect(front.status).toBe(200)
      expect(front.statements.length).toBeLessThanOrEqual(20)
      expect((await get('/')).statements).toEqual([]) // it is shared for a few seconds
      const sandbox = await get(`/sandboxes/${idOf(4)}`)
      expect(sandbox.status).toBe(200)
      expect(sandbox.statements.length).toBeLessThanOrEqual(16)
    })
  })
}
