import path from 'node:path'
import type { Page } from 'playwright-core'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeHome } from '../../../src/backends/local/home.ts'
import { findInstance } from '../../../src/backends/local/instance.ts'
import { createWorld, type World } from '../../support/world.ts'
import { type Site, serveConsoleOf, useBrowser } from './setup.ts'

const browser = useBrowser()
let world: World
let site: Site
beforeAll(async () => {
  world = await createWorld('postgres')
  await world.startWorker()
  site = await serveConsoleOf(world.fleet)
})
afterAll(async () => {
  await site?.close()
  await world?.end()
})

/** Many steps, each of which waits for a worker; on a machine that is busy with other tests, that adds up. */
const LONG = { timeout: 180_000 }

/** A page that is loaded again and again does so at leisure. */
const RELOADING = { interval: 400 }

const idIn = (page: Page) => /sbx_[0-9a-f]{26}/.exec(page.url())?.[0] as string
const state = (page: Page, text: string) => page.locator('#head .badge', { hasText: text })
const button = (page: Page, name: string) => page.locator('#actions').getByRole('button', { name, exact: true })
const says = (page: Page, name: string) =>
  page.locator('#actions li', { has: page.getByRole('button', { name, exact: true }) }).locator('p')
const result = (page: Page, text: string) => page.locator('#result', { hasText: text })

/** Whether the system counts the memory of a sandbox here, so that it can kill for it. */
async function countsMemory(sandboxId: string): Promise<boolean> {
  const home = await makeHome(path.join(world.dataFolder, 'sandboxes'), world.place.fleet)
  const instance = await findInstance(home, (await world.fleet.get(sandboxId)).providerRef as string)
  return Boolean(instance?.labels.cgroups.memory)
}

test('the whole story: spawn, run, watch, pause, resume, killed for its memory, why, destroy', LONG, async () => {
  const { page, complaints } = await browser.open()
  await page.goto(`${site.url}/`)
  await expect.poll(() => page.locator('#begin-h').textContent()).toBe('There are no sandboxes yet')
  expect(await page.locator('#example-0').textContent()).toMatch(/^curl -X POST \S+ \\\n {2}-H "Content-Type/) // without a token, which nobody has
  await page.getByRole('link', { name: 'Make the first one' }).click()

  await page.getByLabel('Backend').selectOption('local')
  await page.getByLabel('Agent').fill('exec sleep 600')
  await page.getByText('More', { exact: true }).click()
  await page.getByLabel('Memory, in MiB').fill('64')
  await page.getByLabel('Metadata').fill('team=checkout\nuser=mara')
  await page.getByRole('button', { name: 'Make it' }).click()

  // It settles before our eyes: this page is never loaded again.
  await result(page, 'Spawn').waitFor()
  await page.evaluate('window.isTheSamePage = true')
  await state(page, 'running').waitFor()
  await result(page, 'succeeded').waitFor()
  expect(await says(page, 'Resume').textContent()).toBe('Already running.')
  expect(await button(page, 'Resume').isDisabled()).toBe(true)
  expect(await page.locator('#facts').textContent()).toContain('team=checkout')
  expect(await page.evaluate('window.isTheSamePage')).toBe(true)
  const sandbox = page.url().replace(/\?.*/, '')

  // What it prints is seen while it is printed: the next line comes when a file is there, which nobody has made yet.
  await page
    .getByLabel('Command')
    .fill('echo one; until [ -e go ]; do sleep 0.05; done; echo two; printf "thr\\303"; sleep 0.2; printf "\\251e\\n"')
  await page.getByRole('button', { name: 'Run' }).click()
  const output = page.locator('pre.output')
  await expect.poll(() => output.textContent()).toBe('one\n')
  await state(page, 'running').waitFor()
  await world.fleet.execute(idIn(page) ?? sandbox.slice(-30), { command: ['touch', 'go'] })
  await expect.poll(() => output.textContent()).toBe('one\ntwo\nthrée\n')
  await state(page, 'succeeded').waitFor()

  await page.goto(sandbox)
  await expect.poll(() => says(page, 'Pause').textContent()).toContain('A resume goes on where it was')
  await button(page, 'Pause').click()
  await result(page, 'Pause').waitFor()
  await state(page, 'suspended').waitFor()
  expect(await says(page, 'Pause').textContent()).toBe('Already suspended.')
  expect(await says(page, 'Kill').textContent()).toContain('no compute is left to free')
  await expect.poll(() => page.locator('#checkpoints').textContent()).toContain('sleeps on it')
  await button(page, 'Resume').click()
  await result(page, 'Resume').waitFor()
  await state(page, 'running').waitFor()

  const isCounted = await countsMemory(idIn(page))
  const reason = isCounted ? 'oom_killed' : 'signal'
  const hog = `exec ${process.execPath} -e 'const all = []; for (;;) all.push(Buffer.alloc(1 << 20, 1))'`
  await page.getByLabel('Command').fill(isCounted ? hog : 'kill -9 $$')
  await page.getByRole('button', { name: 'Run' }).click()
  await state(page, `failed: ${reason}`).waitFor()
  expect(await page.locator('#reason').textContent()).toContain(reason)
  expect(await page.locator('#reason').textContent()).toContain('137')

  await page.goto(sandbox)
  const told = isCounted ? 'the system killed its agent for its use of memory' : 'a signal ended its agent'
  expect(await page.locator('#timeline').textContent()).toContain(told)

  // A question, which can be answered with no; the focus is then where it was.
  await button(page, 'Destroy').click()
  const dialog = page.getByRole('dialog')
  expect(await dialog.textContent()).toContain('Nothing of it can be brought back')
  await dialog.getByRole('button', { name: 'Keep it' }).click()
  expect(await dialog.count()).toBe(0)
  expect(await page.evaluate('document.activeElement.textContent')).toBe('Destroy')
  await button(page, 'Destroy').press('Enter')
  await dialog.getByRole('button', { name: 'Keep it' }).press('Space')
  expect(await dialog.count()).toBe(0)
  await button(page, 'Destroy').press('Space')
  await dialog.getByRole('button', { name: 'Destroy' }).click()
  await state(page, 'gone: destroyed').waitFor()
  expect(await page.locator('#why').textContent()).toContain('it was destroyed with its checkpoints, as was asked')
  expect(await says(page, 'Respawn').textContent()).toContain('fresh one under the same id')
  expect(complaints).toEqual([])
  await page.context().close()
})

test(
  'without scripts the same buttons work, and what is destructive is asked about on a page of its own',
  LONG,
  async () => {
    const { page } = await browser.open({ javaScriptEnabled: false })
    const again = (text: string) =>
      expect
        .poll(async () => {
          await page.reload()
          return page.locator('#head').textContent()
        }, RELOADING)
        .toContain(text)
    await page.goto(`${site.url}/sandboxes/new`)
    await page.getByLabel('Template').fill('x'.repeat(600))
    await page.getByRole('button', { name: 'Make it' }).click()
    expect(await page.getByRole('alert').textContent()).toContain('template')
    await page.getByLabel('Template').fill('')
    await page.getByRole('button', { name: 'Make it' }).click()
    await again('running')
    const sandbox = page.url().replace(/\?.*/, '')

    await page.getByLabel('Command').fill('echo "<b>hello</b>" && sleep 600')
    await page.getByRole('button', { name: 'Run' }).click()
    await expect
      .poll(async () => {
        await page.reload()
        return page.locator('pre.output').textContent()
      }, RELOADING)
      .toBe('<b>hello</b>\n')

    // What runs in it would be ended: that is asked about.
    await page.goto(sandbox)
    await button(page, 'Pause now').click()
    await page.getByRole('heading', { name: 'Pause it now?' }).waitFor()
    expect(await page.locator('.ask').textContent()).toContain('1 execution in it will be ended')
    await page.getByRole('link', { name: 'Keep it' }).click()
    await button(page, 'Pause now').click()
    await page.locator('.ask').getByRole('button', { name: 'Pause now' }).click()
    await again('suspended')
    expect(await page.locator('#executions .badge').first().textContent()).toContain('cancelled')

    await button(page, 'Destroy').click()
    await page.locator('.ask').getByRole('button', { name: 'Destroy' }).click()
    await again('gone: destroyed')
    await page.context().close()
  },
)

test('whoever may only read sees everything and no button, and is refused what a button would ask for', async () => {
  const reader = await serveConsoleOf(world.fleet, {
    tokens: [{ name: 'rita', scope: 'read', secret: 'reader-reader-reader' }],
  })
  const { sandbox } = await world.fleet.spawn({ backend: 'test', wait: '30s' })
  const { page } = await browser.open()
  try {
    await page.goto(`${reader.url}/sandboxes/${sandbox.id}`)
    await page.getByLabel('Token').fill('reader-reader-reader')
    await page.getByRole('button', { name: 'Log in' }).click()
    await state(page, 'running').waitFor()
    expect(await page.getByRole('button', { name: /Pause|Kill|Destroy|Run/ }).count()).toBe(0)
    expect(await page.getByText('You may look').count()).toBe(1)
    const refused = await page.request.post(`${reader.url}/sandboxes/${sandbox.id}/pause`, {
      headers: { origin: reader.url, 'sec-fetch-site': 'same-origin' },
    })
    expect(refused.status()).toBe(403)
    expect((await world.fleet.get(sandbox.id)).state).toBe('running')
    await page.getByRole('button', { name: 'Log out rita' }).click()
    await page.waitForURL(/login/)
  } finally {
    await page.context().close()
    await reader.close()
  }
  await world.fleet.destroy(sandbox.id, { wait: '30s' })
})

test('a kill that was not asked about is not done, but asked about', async () => {
  const { sandbox } = await world.fleet.spawn({ backend: 'test', wait: '30s' })
  const answer = await fetch(`${site.url}/sandboxes/${sandbox.id}/kill`, {
    method: 'POST',
    redirect: 'manual',
    headers: { 'sec-fetch-site': 'same-origin' },
  })
  expect([answer.status, answer.headers.get('location')]).toEqual([303, `/sandboxes/${sandbox.id}/kill`])
  expect((await world.fleet.get(sandbox.id)).state).toBe('running')
  await world.fleet.destroy(sandbox.id, { wait: '30s' })
})
