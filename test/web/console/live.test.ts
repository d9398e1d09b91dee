import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { Events } from '../../../src/events.ts'
import type { Fleet } from '../../../src/fleet/fleet.ts'
import { openFleet } from '../../../src/fleet/open-fleet.ts'
import { openStore } from '../../../src/queues/bullmq/open-store.ts'
import { createApp } from '../../../src/web/app.ts'
import { STREAMS_MAX } from '../../../src/web/console/live.ts'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { HERE } from '../../support/here.ts'
import { countingDb } from './counting.ts'
import { Demo } from './demo.ts'
import { type Site, serveConsoleOf, useBrowser } from './setup.ts'

let database: TestDatabase
let counting: ReturnType<typeof countingDb>
let fleet: Fleet
let site: Site
let demo: Demo
beforeAll(async () => {
  database = await createDatabase()
  counting = countingDb(database.url)
  const events = new Events()
  const store = openStore({ databaseUrl: database.url, redisUrl: undefined, fleet: 'live', role: 'producer', events })
  fleet = openFleet({ databaseUrl: database.url, fleet: 'live' }, { handle: counting.handle, store, events })
  site = await serveConsoleOf(fleet)
  demo = new Demo(database.db, { fleet: fleet.name, now: Date.now() })
})
afterAll(async () => {
  await site?.close()
  await fleet?.close()
  await database?.drop()
})

const looks = () => counting.statements().filter((statement) => statement.includes('find_marks')).length

/** Reads a stream of events as they come, until it is left. */
function listen(path: string, headers: Record<string, string> = {}) {
  const leaving = new AbortController()
  const heard: string[] = []
  const reading = fetch(`${site.url}${path}`, { headers, signal: leaving.signal }).then(async ({ body }) => {
    for await (const chunk of body ?? []) heard.push(Buffer.from(chunk).toString())
  })
  reading.catch(() => {})
  return { heard: () => heard.join(''), leave: () => leaving.abort() }
}

describe('a stream', () => {
  test('tells of changes for as long as somebody listens; the last who leaves leaves nothing behind', async () => {
    const { sandbox, ledger } = await demo.spawned(60_000, 'e2b', {})
    const listeners = Array.from({ length: 10 }, () => listen(`/live?sandboxes=${sandbox.id}`))
    for (const { heard } of listeners) await expect.poll(heard).toContain('event: changed')
    counting.forget()
    await ledger.ask(sandbox.id, 'pause')
    for (const { heard } of listeners) await expect.poll(() => heard().match(/event: changed/g)?.length).toBe(2)
    expect(looks()).toBeLessThanOrEqual(3) // one a second, for all ten
    for (const { leave } of listeners) leave()
    // It is known when the connection was cut, which takes a moment; from then on nobody looks.
    let before = -1
    await expect
      .poll(
        () => {
          const now = looks()
          const isQuiet = now === before
          before = now
          return isQuiet
        },
        { interval: 1_500 },
      )
      .toBe(true)
  })

  test('goes on behind the byte that was heard last', async () => {
    const { sandbox, ledger, clock } = await demo.spawned(60_000, 'e2b', {})
    const execution = await demo.executed(ledger, clock, sandbox, 'x', 'hello world')
    const first = listen(`/live?execution=${execution.id}&from=6`)
    await expect
      .poll(first.heard)
      .toContain(`data: {"executionId":"${execution.id}","from":6,"to":11,"text":"world"}\nid: 11`)
    first.leave()
    const second = listen(`/live?execution=${execution.id}&from=6`, { 'last-event-id': '8' })
    await expect.poll(second.heard).toContain('"from":8,"to":11,"text":"rld"')
    second.leave()
  })

  test('is refused at once for what cannot be watched', async () => {
    const status = async (query: string) => (await fetch(`${site.url}/live?${query}`)).status
    expect(await status('sandboxes=nonsense')).toBe(422)
    expect(await status(`sandboxes=${Array.from({ length: 101 }, () => `sbx_${'0'.repeat(26)}`).join('.')}`)).toBe(422)
    expect(await status(`execution=exe_${'0'.repeat(26)}`)).toBe(404)
  })

  test('takes no place for who asks only for its head', async () => {
    const app = createApp(fleet)
    const init = { headers: { host: '127.0.0.1' } }
    const heads = Array.from({ length: STREAMS_MAX }, async () =>
      app.request('http://127.0.0.1/live?overview=yes', { method: 'HEAD', ...init }, HERE),
    )
    expect(new Set((await Promise.all(heads)).map(({ status }) => status))).toEqual(new Set([200]))
    const stream = await app.request('http://127.0.0.1/live?overview=yes', init, HERE)
    expect(stream.status).toBe(200)
    await stream.body?.cancel()
  })

  test('is refused when there are too many, with when to try again, until one ends', async () => {
    const app = createApp(fleet)
    const open = async () => app.request('http://127.0.0.1/live?overview=yes', { headers: { host: '127.0.0.1' } }, HERE)
    const streams = await Promise.all(Array.from({ length: STREAMS_MAX }, open))
    expect(new Set(streams.map(({ status }) => status))).toEqual(new Set([200]))
    const refused = await open()
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '5'])
    expect(await refused.json()).toMatchObject({ error_type: 'too_many_streams', retryable: true })
    await streams[0]?.body?.cancel()
    await expect.poll(async () => (await open()).status).toBe(200)
    await Promise.all(streams.slice(1).map(({ body }) => body?.cancel()))
  })

  test('is given to no more than there is room for when many come at once, and to as many after those that were refused', async () => {
    const app = createApp(fleet)
    const openAll = (query: string, count: number) => {
      const init = { headers: { host: '127.0.0.1' } }
      const opening = Array.from({ length: count }, async () =>
        app.request(`http://127.0.0.1/live?${query}`, init, HERE),
      )
      return Promise.all(opening)
    }
    const unknown = await openAll(`execution=exe_${'0'.repeat(26)}`, STREAMS_MAX)
    expect(new Set(unknown.map(({ status }) => status))).toEqual(new Set([404]))
    const opened = await openAll('overview=yes', STREAMS_MAX + 44)
    expect(opened.filter(({ status }) => status === 200)).toHaveLength(STREAMS_MAX)
    await Promise.all(opened.map(({ body }) => body?.cancel()))
  })
})

describe('a page', () => {
  const browser = useBrowser()

  test('changes under the reader without taking away what they are in the middle of, and says what has changed', async () => {
    const { sandbox, ledger } = await demo.spawned(60_000, 'e2b', { team: 'checkout' })
    const { page, complaints } = await browser.open()
    await page.goto(`${site.url}/sandboxes/${sandbox.id}`)
    await page.locator('#live[data-state=live]').waitFor()
    const details = page.locator('#timeline details').last()
    await details.locator('summary').click()
    await page.getByLabel('Command').fill('half a comm')
    await ledger.perform((await ledger.ask(sandbox.id, 'pause')).operation.id)
    await page.locator('#head .badge', { hasText: 'suspended' }).waitFor()
    expect(await details.getAttribute('open')).toBe('')
    expect(await page.getByLabel('Command').inputValue()).toBe('half a comm')
    expect(await page.evaluate('document.activeElement.id')).toBe('command')
    expect(await page.locator('#told').textContent()).toBe('The sandbox is suspended.')
    expect(await page.locator('#run-says').textContent()).toContain('Wakes it first')
    expect(complaints).toEqual([])

    // A question that is open stays open, whatever else changes.
    await page.getByRole('button', { name: 'Destroy' }).click()
    const resumed = await ledger.ask(sandbox.id, 'resume')
    await page.locator('#head .badge', { hasText: 'resuming' }).waitFor()
    expect(await page.getByRole('dialog').isVisible()).toBe(true)
    await page.keyboard.press('Escape')
    await ledger.perform(resumed.operation.id)
    await page.locator('#head .badge', { hasText: 'running' }).waitFor()
    await page.context().close()
  })

  test('says when it is cut off, and comes back by itself with what it has missed', async () => {
    const { page } = await browser.open()
    await page.goto(`${site.url}/sandboxes`)
    await page.locator('#live[data-state=live]').waitFor()
    await page.evaluate(`window.said = []
      new MutationObserver(() => window.said.push(document.querySelector('#live').textContent))
        .observe(document.querySelector('#live'), { childList: true, characterData: true, subtree: true })`)
    site.cut()
    const { sandbox } = await demo.spawned(30_000, 'e2b', {})
    await page.locator(`#row-${sandbox.id}`).waitFor()
    expect(await page.evaluate('window.said')).toEqual(['Reconnecting', 'Live'])
    await page.context().close()
  })

  test('is found by keyboard, and keeps the theme that was chosen', async () => {
    const { page } = await browser.open({ colorScheme: 'light' })
    await page.goto(`${site.url}/`)
    await page.keyboard.press('Tab')
    expect(await page.evaluate('document.activeElement.textContent')).toBe('Skip to content')
    await page.keyboard.press('Enter')
    expect(await page.evaluate('document.activeElement.id')).toBe('main')
    await page.keyboard.press('/')
    expect(await page.evaluate('document.activeElement.id')).toBe('find')
    await page.keyboard.type('sbx_0')
    await page.keyboard.press('Enter')
    await page.waitForURL(/sandboxes\?id=sbx_0/)
    const background = () => page.evaluate('getComputedStyle(document.body).backgroundColor')
    const light = await background()
    for (const theme of ['light', 'dark']) {
      await page.locator('#theme').click()
      expect(await page.locator('#theme').textContent()).toBe(`Theme: ${theme}`)
    }
    expect(await background()).not.toBe(light)
    await page.reload()
    expect(await page.locator('html').getAttribute('data-theme')).toBe('dark')
    expect(await background()).not.toBe(light)
    await page.locator('#theme').click()
    expect(await background()).toBe(light)
    await page.context().close()
  })
})
