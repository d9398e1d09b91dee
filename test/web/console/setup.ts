import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import axe from 'axe-core'
import type { Browser, BrowserContextOptions, Page } from 'playwright-core'
import { afterAll, beforeAll, expect } from 'vitest'
import type { Fleet } from '../../../src/index.ts'
import { type AppOptions, createApp } from '../../../src/web/app.ts'
import { INSTALL_MS, launchBrowser } from '../../support/browser.ts'
import { RecordedEvents } from '../../support/events.ts'

export type Site = {
  url: string
  /** Cuts every connection, as a proxy does that is restarted. */
  cut(): void
  close(): Promise<void>
}

/** The console over HTTP, on a free port. */
export async function serveConsoleOf(fleet: Fleet, options: AppOptions = {}): Promise<Site> {
  const stopping = new AbortController()
  const app = createApp(fleet, {
    rateLimit: 'off',
    events: new RecordedEvents(),
    stopping: stopping.signal,
    ...options,
  })
  const server = await new Promise<Server>((resolve) => {
    const listening = serve({ fetch: app.fetch, port: 0, hostname: '127.0.0.1' }, () => resolve(listening)) as Server
  })
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    cut: () => server.closeAllConnections(),
    async close() {
      stopping.abort()
      server.closeAllConnections()
      await new Promise((resolve) => server.close(resolve))
    },
  }
}

/** What a page complained of: anything here is a bug, or an attack that came further than it should. */
export type Visited = { page: Page; complaints: string[] }

/** One browser for a file. Every page that is opened is watched for scripts that fail and for what its policy has refused. */
export function useBrowser(): { open(options?: BrowserContextOptions): Promise<Visited> } {
  let browser: Browser
  beforeAll(async () => {
    browser = await launchBrowser()
  }, INSTALL_MS)
  afterAll(() => browser?.close())
  return {
    async open(options = {}) {
      const context = await browser.newContext({
        viewport: { width: 1280, height: 900 },
        reducedMotion: 'reduce', // or it paints for as long as it is open
        ...options,
      })
      context.setDefaultTimeout(20_000)
      const page = await context.newPage()
      const complaints: string[] = []
      page.on('pageerror', (error) => complaints.push(`error: ${error.message}`))
      page.on('dialog', (dialog) => {
        complaints.push(`dialog: ${dialog.message()}`)
        dialog.dismiss().catch(() => {})
      })
      page.on('console', (message) => {
        // That a form or a search was not understood is an answer like any other.
        if (message.text().includes('status of 422')) return
        if (message.type() === 'error' || message.type() === 'warning') complaints.push(message.text())
      })
      return { page, complaints }
    },
  }
}

/** No page is wider than its window. */
export async function expectNoSidewaysScroll(page: Page): Promise<void> {
  const [inside, outside] = await page.evaluate<[number, number]>(
    '[document.documentElement.scrollWidth, document.documentElement.clientWidth]',
  )
  expect(inside).toBeLessThanOrEqual(outside)
}

/** Nothing reaches out of a card, where it could not be seen. */
export async function expectNothingCut(page: Page): Promise<void> {
  const cut = await page.evaluate<string[]>(
    `[...document.querySelectorAll('.card')].filter((card) => card.scrollWidth > card.clientWidth).map((card) => card.innerText.slice(0, 80))`,
  )
  expect(cut, page.url()).toEqual([])
}

type Violation = { id: string; help: string; nodes: { html: string; failureSummary: string }[] }

/** What may differ by colour, and by the width of the window; all else is the same on every screen. */
const BY_LOOK = [
  'color-contrast',
  'link-in-text-block',
  'scrollable-region-focusable',
  'target-size',
  'td-headers-attr',
]

/** Nothing that axe knows to keep somebody out: contrast, names, landmarks, keyboard and all else. */
export async function expectAccessible(page: Page, what: 'all' | 'what differs by look'): Promise<void> {
  if (!(await page.evaluate<boolean>('"axe" in window'))) await page.evaluate(axe.source)
  const options = what === 'all' ? {} : { runOnly: { type: 'rule', values: BY_LOOK } }
  const { violations, passes } = await page.evaluate<{ violations: Violation[]; passes: unknown[] }>(
    `axe.run(document, ${JSON.stringify(options)})`,
  )
  expect(passes.length).toBeGreaterThan(what === 'all' ? 10 : 0) // it has looked
  const told = violations.flatMap(({ id, help, nodes }) =>
    nodes.map(({ html, failureSummary }) => `${id}: ${help}: ${html.slice(0, 200)} ${failureSummary}`),
  )
  expect(told, page.url()).toEqual([])
}
