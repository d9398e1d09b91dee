import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createFleet, type Fleet } from '../../../src/index.ts'
import { failure } from '../../../src/sandbox/failures.ts'
import { createApp } from '../../../src/web/app.ts'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { HERE } from '../../support/here.ts'
import { Demo } from './demo.ts'
import { type Site, serveConsoleOf, useBrowser } from './setup.ts'

/** Each tries to run something, to leave its place, or to look like something else. */
const ATTACKS = [
  '<script>window.hacked = "script"</script>',
  '<img src=x onerror="window.hacked = \'img\'">',
  '"><svg onload="window.hacked = \'svg\'">',
  "'-window.hacked='attribute'-'",
  '</pre></title></textarea></style><script>window.hacked = "closed"</script>',
  '{{window.hacked = "mustache"}}',
  'javascript:window.hacked="url"',
  '\u001b]8;;javascript:window.hacked=1\u001b\\link\u001b]8;;\u001b\\\u001b[2J\u001b[31m',
  'invoice\u202egnp.exe\u202c \u2066isolated',
]
const ALL = ATTACKS.join(' ')

const browser = useBrowser()
let database: TestDatabase
let fleet: Fleet
let site: Site
let sandboxId: string
let printing: { id: string; fence: number }
let demo: Demo

beforeAll(async () => {
  database = await createDatabase()
  fleet = createFleet({ databaseUrl: database.url, fleet: 'hostile' })
  demo = new Demo(database.db, { fleet: fleet.name, now: Date.now() })
  const { ledger, clock } = demo.at(60_000)
  const metadata = Object.fromEntries(ATTACKS.map((attack, nth) => [`${attack}`.slice(0, 200), `${nth} ${attack}`]))
  const { operation } = await ledger.spawn({ backend: 'e2b', metadata, agentThreadId: ALL })
  const { sandbox } = await demo.performed(ledger, clock, operation.id, {
    status: 'succeeded',
    outcome: 'done',
    rest: { state: 'running', providerRef: ALL, incarnation: ALL, previewUrl: 'javascript:window.hacked="preview"' },
    evidence: { lost: ALL, [ATTACKS[0] as string]: ALL },
  })
  sandboxId = sandbox.id
  const copy = await ledger.ask(sandbox.id, 'snapshot', { options: { name: ALL } })
  await demo.performed(ledger, clock, copy.operation.id, {
    status: 'failed',
    error: failure('internal', ALL),
    rest: { state: 'running', snapshot: { kind: 'snapshot', providerRef: ALL, name: ALL } },
  })
  const row = await ledger.sandbox(sandbox.id)
  await demo.executed(ledger, clock, row, ALL, ALL, { status: 'failed', reason: 'error', exitCode: 1, message: ALL })
  printing = await demo.executed(ledger, clock, row, ALL, `${ALL}\n`)
  site = await serveConsoleOf(fleet)
})
afterAll(async () => {
  await site?.close()
  await fleet?.close()
  await database?.drop()
})

/** Nothing ran, nothing was even tried that a policy had to refuse, and no markup of theirs is on the page. */
async function expectHarmless(page: Page, complaints: string[]): Promise<void> {
  expect(await page.evaluate('window.hacked')).toBeUndefined()
  expect(complaints).toEqual([])
  expect(await page.locator('img, main script, svg[onload], a[href^="javascript:"]').count()).toBe(0)
  const text = (await page.locator('main').textContent()) as string
  for (const unseen of ['\u001b', '\u202c', '\u202e', '\u2066']) expect(text).not.toContain(unseen)
}

test('what sandboxes, apps and providers say is shown as what it is, on every page', async () => {
  const { page, complaints } = await browser.open()
  const pages = [
    '/',
    '/sandboxes',
    `/sandboxes/${sandboxId}?story=all`,
    `/executions/${printing.id}`,
    `/sandboxes?metadata=${encodeURIComponent(`a=${ALL}`)}&backend=${encodeURIComponent(ALL)}`,
    `/sandboxes/new?command=${encodeURIComponent(ALL)}&backend=${encodeURIComponent(ALL)}&from=${encodeURIComponent(ALL)}`,
  ]
  for (const path of pages) {
    await page.goto(`${site.url}${path}`)
    await expectHarmless(page, complaints)
  }
  // A link does not put words into the mouth of whoever follows it.
  expect(await page.getByLabel('Agent').inputValue()).toBe('')
  await page.goto(`${site.url}/sandboxes/${sandboxId}`)
  const facts = await page.locator('#facts').textContent()
  expect(facts).toContain(ATTACKS[0])
  expect(facts).toContain('invoice[U+202E]gnp.exe')
  expect(await page.locator('#facts a').count()).toBe(0) // such a preview is no link
  expect(await page.locator('#timeline').textContent()).toContain(ATTACKS[1])
  await page.context().close()
})

test('also what comes live is added as text', async () => {
  const { page, complaints } = await browser.open()
  await page.goto(`${site.url}/executions/${printing.id}`)
  await page.locator('#live[data-state=live]').waitFor()
  const output = page.locator('pre.output')
  const before = (await output.textContent()) as string
  const { outputBytes } = (await fleet.execution(printing.id)).execution
  await demo.print(printing, outputBytes, `late ${ALL}\n`)
  await expect.poll(() => output.textContent()).toContain('late <script>')
  const after = (await output.textContent()) as string
  expect(after.startsWith(before)).toBe(true)
  expect(await output.locator('*').count()).toBe(0)
  await expectHarmless(page, complaints)
  await page.context().close()
})

test('a download is a file of text, and never a page', async () => {
  const answer = await fetch(`${site.url}/executions/${printing.id}/output.txt`)
  expect(Object.fromEntries(answer.headers)).toMatchObject({
    'content-type': 'text/plain; charset=utf-8',
    'content-disposition': `attachment; filename="${printing.id}.txt"`,
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  })
  expect(await answer.text()).toContain(`${ALL}\n`)
})

test('no page has anything inline that a policy would have to allow', async () => {
  for (const path of ['/', '/sandboxes', `/sandboxes/${sandboxId}`, `/executions/${printing.id}`, '/sandboxes/new']) {
    const answer = await fetch(`${site.url}${path}`)
    expect(answer.headers.get('content-security-policy')).toContain("script-src 'self'")
    const page = await answer.text()
    expect(page).not.toMatch(/<[^>]*\s(style|on\w+)=/i)
    expect(page).not.toMatch(/<style|<script(?![^>]* src=)/i)
  }
})

test('mounted below a path, every link, form, script and stream stays below it', async () => {
  const app = createApp(fleet, { basePath: '/sandman' })
  for (const path of ['/', '/sandboxes', `/sandboxes/${sandboxId}`, `/executions/${printing.id}`, '/sandboxes/new']) {
    const answer = await app.request(`http://127.0.0.1/sandman${path}`, { headers: { host: '127.0.0.1' } }, HERE)
    expect(answer.status).toBe(200)
    const page = await answer.text()
    const targets = [...page.matchAll(/<[^>]*\s(?:href|src|action|data-stream)="([^"]*)"/g)].map(([, target]) => target)
    expect(targets.length).toBeGreaterThan(8)
    expect(targets.filter((target) => target && !/^(\/sandman\/|#|\?)/.test(target))).toEqual([])
  }
})
