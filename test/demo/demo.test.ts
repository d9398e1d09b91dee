import { mkdtemp, readdir, readFile, readlink, rm } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { sandman } from '../cli/setup.ts'
import { SandmanProcess } from '../support/sandman.ts'
import { expectAccessible, expectNothingCut, useBrowser } from '../web/console/setup.ts'

type Verdict = { as_expected: boolean; text: string; facts: Record<string, unknown> }
type Column = { steps: { mark: string; text: string }[]; verdict: Verdict }
type Told = { as_expected: boolean; incidents: { letter: string; usual: Column; sandman: Column }[] }

/** Much longer than it takes, because it is played beside all the other tests. */
const PLAYED_MS = 170_000

const browser = useBrowser()
let folder: string
beforeEach(async () => {
  folder = await mkdtemp(path.join(os.tmpdir(), 'sandman-demo-test-'))
})
afterEach(() => rm(folder, { recursive: true, force: true }))

function demo(...args: string[]) {
  const process = new SandmanProcess(['demo', ...args], { env: { TMPDIR: folder }, cwd: folder })
  let out = ''
  process.child.stdout?.on('data', (text) => {
    out += text
  })
  return { process, printed: () => out }
}

/** Every process that runs in the folder, or was started with something of it. */
async function processesOf(place: string): Promise<string[]> {
  const found: string[] = []
  for (const pid of (await readdir('/proc')).filter((name) => /^\d+$/.test(name))) {
    const at = `/proc/${pid}`
    const [command = '', environment = '', working = ''] = await Promise.all([
      readFile(`${at}/cmdline`, 'latin1').catch(() => ''),
      readFile(`${at}/environ`, 'latin1').catch(() => ''),
      readlink(`${at}/cwd`).catch(() => ''),
    ])
    if ([command, environment, working].some((text) => text.includes(place))) found.push(command.replaceAll('\0', ' '))
  }
  return found
}

async function expectNothingLeft(): Promise<void> {
  // What was ended is still shown by the system for a moment.
  await expect.poll(() => processesOf(folder)).toEqual([])
  expect(await readdir(folder)).toEqual([])
}

test('all five incidents happen to the usual code and not to Sandman; then it ends by itself, and leaves nothing behind', {
  timeout: PLAYED_MS,
}, async () => {
  const { process, printed } = demo('--json')
  await process.printed(/Look on /)
  expect(await processesOf(folder)).not.toEqual([]) // or nobody would be found afterwards, either
  expect(await process.exited, process.output).toEqual({ code: 0, signal: null })
  const told = JSON.parse(printed()) as Told
  const facts = (letter: string, side: 'usual' | 'sandman') => {
    const column = told.incidents.find((incident) => incident.letter === letter)?.[side]
    expect(column?.verdict, JSON.stringify(column)).toMatchObject({ as_expected: true })
    return column?.verdict.facts
  }
  expect(told.incidents.map(({ letter }) => letter).join('')).toBe('ABCDE')
  expect(facts('A', 'usual')).toMatchObject({ row: 'suspended', has_checkpoint: false, processes: 0 })
  expect(facts('A', 'sandman')).toMatchObject({ row: 'running', history: 'running', pause: 'checkpoint_missing' })
  expect(facts('B', 'usual')).toMatchObject({ paused: 'suspended', row: 'running', processes: 0 })
  expect(facts('B', 'sandman')).toMatchObject({ pause: 'pause_unsupported', answer: 'I am here', thread: null })
  expect(facts('C', 'usual')).toMatchObject({ row: 'working', deadline_moved: true, tool_server_alive: true })
  expect(facts('C', 'sandman')).toMatchObject({ execution: 'failed', exit_code: 137, ends_in_history: 1 })
  expect(facts('D', 'usual')).toMatchObject({ of_the_other: 'Could not resume the sandbox' })
  expect(facts('D', 'sandman')).toMatchObject({
    of_the_expired: 'sandbox_expired',
    of_the_other: 'sandbox_unreachable',
    row_after_the_retry: 'running',
    preview_status: 200,
  })
  expect(facts('E', 'usual')).toMatchObject({ kill_during: 'already done', kill_after: 'killed' })
  expect(facts('E', 'sandman')).toMatchObject({ snapshot_during: 'invalid_transition', ends_at_the_provider: 0 })
  expect(told.as_expected).toBe(true)
  await expectNothingLeft()
})

test('it can be looked on at in a browser, and with --keep also afterwards', { timeout: PLAYED_MS }, async () => {
  const { process, printed } = demo('--only', 'B', '--keep')
  const url = /http:\S+/.exec(await process.printed(/Look on .*http:\S+/))?.[0] as string
  const { page, complaints } = await browser.open()
  await page.goto(url)
  // By itself, as it happens.
  await page.locator('#act-B .badge', { hasText: 'held' }).waitFor()
  await page.locator('#act-B .badge', { hasText: 'failed' }).waitFor()
  await page.locator('#lead', { hasText: 'It is over' }).waitFor()
  await expectAccessible(page, 'all')
  await expectNothingCut(page)
  await page.locator('#act-B a').first().click()
  await page.locator('h1', { hasText: 'sbx_' }).waitFor()
  expect(complaints).toEqual([])
  await page.context().close()

  await process.printed('Ctrl-C ends it.')
  expect(printed()).toContain('B  Pause that deletes, resume that does nothing  FAILED          HELD')
  expect(printed()).not.toContain('A  ')
  process.kill('SIGINT')
  expect(await process.exited, process.output).toEqual({ code: 0, signal: null })
  await expectNothingLeft()
})

test('Ctrl-C in the middle of it ends it, and leaves nothing behind either', { timeout: PLAYED_MS }, async () => {
  const { process } = demo('--only', 'd')
  await process.printed('Two previews sleep.') // and there are five seconds between two attempts to come
  process.kill('SIGINT')
  expect(await process.exited).toEqual({ code: 130, signal: null })
  expect(process.output).not.toContain('    at ')
  expect(process.output).not.toContain('What was shown')
  await expectNothingLeft()
})

test('an incident that there is not is a matter of usage', async () => {
  const { code, err } = await sandman(['demo', '--only', 'A,F'])
  expect(code).toBe(2)
  expect(err).toContain('--only: there is no incident "F"; there are A, B, C, D, E')
})
