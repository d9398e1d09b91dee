import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import os from 'node:os'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { type Browser, chromium } from 'playwright-core'
import { lockFile } from '../../src/file-lock.ts'

const run = promisify(execFile)
const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
const INSTALL_MS = 300_000

/** A real browser, which talks to this machine and to nobody else. One for a file; each test has a context of its own. */
export async function launchBrowser(): Promise<Browser> {
  const executablePath = await findChromium()
  const env = Object.entries(process.env).filter(([name]) => !/^(https?|all|no)_proxy$/i.test(name))
  return chromium.launch({
    executablePath,
    args: [
      '--headless',
      '--no-sandbox',
      '--disable-gpu',
      '--disable-quic',
      '--no-first-run',
      '--no-proxy-server',
      '--disable-background-networking',
      '--disable-component-update',
      '--disable-sync',
      '--disable-dev-shm-usage',
      '--font-render-hinting=none',
    ],
    env: Object.fromEntries(env) as Record<string, string>,
  })
}

/** The path of a Chromium; installed from Debian's packages when nothing else is there and we may. */
async function findChromium(): Promise<string> {
  const found = (await onPath()) ?? (await installed())
  if (found) return found
  throw new Error(
    'The tests of the console need a browser: set CHROMIUM_PATH, or install chromium so that it is on the path.',
  )
}

async function onPath(): Promise<string | undefined> {
  const { CHROMIUM_PATH, PATH = '' } = process.env
  if (CHROMIUM_PATH) return CHROMIUM_PATH
  for (const folder of [...PATH.split(':'), '/usr/local/bin', '/usr/bin']) {
    for (const name of NAMES) if (await isExecutable(path.join(folder, name))) return path.join(folder, name)
  }
  return undefined
}

/** Test files and whole runs may come here at the same moment: one of them installs, and the others find it there. */
async function installed(): Promise<string | undefined> {
  if (process.getuid?.() !== 0 || !(await isExecutable('/usr/bin/apt-get'))) return undefined
  const until = Date.now() + INSTALL_MS
  while (Date.now() < until) {
    const lock = await lockFile(path.join(os.tmpdir(), 'sandman-chromium.lock'))
    if (typeof lock === 'number') {
      await sleep(1_000)
      continue
    }
    try {
      const found = await onPath()
      if (found) return found
      process.stderr.write("Installing Debian's chromium for the tests\n")
      await install(until)
    } finally {
      await lock.release()
    }
  }
  return onPath()
}

/** Something else on this machine may be installing, too: apt then waits for a while, or refuses. */
async function install(until: number): Promise<void> {
  const options = {
    env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' },
    timeout: Math.max(1, until - Date.now()),
  }
  const wanted = ['install', '-qy', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', 'chromium']
  await run('apt-get', ['update', '-q'], options).catch(() => undefined)
  await run('apt-get', wanted, options).catch(() => sleep(3_000))
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}
