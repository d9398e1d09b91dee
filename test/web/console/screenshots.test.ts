import { access, mkdir, stat, writeFile } from 'node:fs/promises'
import path from 'node:path'
import type { BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { createFleet, type Fleet } from '../../../src/index.ts'
import { createDatabase, type TestDatabase } from '../../support/database.ts'
import { smallPng } from '../../support/small-png.ts'
import { Demo, seedAround, seedHero } from './demo.ts'
import {
  expectAccessible,
  expectNoSidewaysScroll,
  expectNothingCut,
  type Site,
  serveConsoleOf,
  useBrowser,
  type Visited,
} from './setup.ts'

/** `SCREENSHOTS=1` takes the pictures of the docs anew. */
const TAKES = process.env.SCREENSHOTS === '1'
const FOLDER = path.resolve(import.meta.dirname, '../../../docs/images')
const BYTES_MAX = 150_000

const LOOKS = {
  light: { viewport: { width: 1280, height: 900 }, colorScheme: 'light' },
  dark: { viewport: { width: 1280, height: 900 }, colorScheme: 'dark' },
  phone: { viewport: { width: 360, height: 780 }, colorScheme: 'light' },
} as const satisfies Record<string, BrowserContextOptions>
type Look = keyof typeof LOOKS
const ALL_LOOKS = Object.keys(LOOKS) as Look[]

const PAGES = ['front', 'sandboxes', 'sandbox', 'execution', 'new', 'confirm', 'reference', 'login', 'queues'] as const
type PageName = (typeof PAGES)[number]

/** Those that change while somebody looks. */
const LIVE: PageName[] = ['front', 'sandboxes', 'sandbox']
/** Bull Board's own page: it is for its makers to say what it looks like. */
const FOREIGN = 'queues'

const SECRET = 'secret-of-the-pictures'
const browser = useBrowser()
let database: TestDatabase
let fleet: Fleet
let site: Site
let locked: Site
let pages: Record<PageName, string>
let visited: Visited | undefined

beforeAll(async () => {
  database = await createDatabase()
  fleet = createFleet({ databaseUrl: database.url, fleet: 'production' })
  const demo = new Demo(database.db, { fleet: fleet.name, now: Date.now() })
  await seedAround(demo, TAKES ? 63 : 3)
  const { sandbox, oom } = await seedHero(demo)
  site = await serveConsoleOf(fleet)
  locked = await serveConsoleOf(fleet, { tokens: [{ name: 'otto', scope: 'operate', secret: SECRET }] })
  pages = {
    front: `${site.url}/`,
    sandboxes: `${site.url}/sandboxes`,
    sandbox: `${site.url}/sandboxes/${sandbox.id}`,
    execution: `${site.url}/executions/${oom.id}`,
    new: `${site.url}/sandboxes/new`,
    confirm: `${site.url}/sandboxes/${sandbox.id}/destroy`,
    reference: `${site.url}/reference`,
    login: `${locked.url}/login`,
    queues: `${site.url}/queues`,
  }
})
afterAll(async () => {
  await Promise.all([site?.close(), locked?.close()])
  await fleet?.close()
  await database?.drop()
})

test.each(PAGES)('the %s page can be seen and heard in every look, and the docs show it', async (name) => {
  visited ??= await browser.open({ deviceScaleFactor: 1 })
  const { page, complaints } = visited
  await show(page, 'light')
  // It is the same page in another light, or narrower; to load it anew for each costs more than all that is looked at.
  await page.goto(pages[name])
  if (name === FOREIGN) await page.locator('text=/^\\d+ Jobs$/ >> nth=0').waitFor()
  for (const look of ALL_LOOKS) {
    await show(page, look)
    if (name !== FOREIGN) {
      await expectNoSidewaysScroll(page)
      await expectNothingCut(page)
    }
    const file = path.join(FOLDER, `${name}-${look}.png`)
    if (TAKES) await take(page, name, look, file)
    await access(file)
    expect((await stat(file)).size, file).toBeLessThan(BYTES_MAX)
  }
  if (name !== FOREIGN) {
    // It has dozens of sections, which are all alike: the first ones are enough to look at closely.
    if (name === 'reference')
      await page.evaluate(`document.querySelectorAll('main section:nth-of-type(n + 4)').forEach((it) => it.remove())`)
    for (const look of ALL_LOOKS) {
      await show(page, look)
      await expectAccessible(page, look === 'light' ? 'all' : 'what differs by look')
    }
  }
  expect(complaints).toEqual([])
})

async function show(page: Page, look: Look): Promise<void> {
  const { viewport, colorScheme } = LOOKS[look]
  await page.setViewportSize(viewport)
  await page.emulateMedia({ colorScheme })
}

async function take(page: Page, name: PageName, look: Look, file: string): Promise<void> {
  await mkdir(FOLDER, { recursive: true })
  if (LIVE.includes(name)) await page.waitForSelector('#live[data-state=live]')
  const tall = look === 'phone' ? 1_500 : 1_150
  const height = Math.min(tall, await page.evaluate<number>('document.body.offsetHeight'))
  await page.setViewportSize({ width: LOOKS[look].viewport.width, height })
  await writeFile(file, smallPng(await page.screenshot({ animations: 'disabled' })))
}
