import { type Browser, chromium } from 'playwright-core'
import { findOrInstall, findProgram } from '../../proof/debian.ts'

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'google-chrome-stable']
/** A first run may have to fetch it. */
export const INSTALL_MS = 300_000

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
  const { CHROMIUM_PATH } = process.env
  if (CHROMIUM_PATH) return CHROMIUM_PATH
  const found = await findOrInstall(() => findProgram(...NAMES), 'chromium')
  if (found) return found
  throw new Error(
    'The tests of the console need a browser: set CHROMIUM_PATH, or install chromium so that it is on the path.',
  )
}
