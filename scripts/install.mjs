// Runs before `npm start`, `npm test` and `npm run check`, so that each of them can be the first command typed in a fresh
// clone. Plain JavaScript without dependencies: at this point there may be nothing but an old Node and npm.

import { spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, rmSync, statSync, utimesSync, writeFileSync } from 'node:fs'
import path from 'node:path'
import { fileURLToPath } from 'node:url'

const root = path.dirname(path.dirname(fileURLToPath(import.meta.url)))
const stamp = path.join(root, 'node_modules', '.sandman-installed')
const begun = path.join(root, 'node_modules', '.sandman-installing')
const lock = path.join(root, '.sandman-install-lock')
const LOCK_STALE_MS = 10 * 60_000 // touched every 10 s while it is held
const LOOK_MS = 200
const STOP_MS = 5_000
const STOPPED = 130 // as a shell says it of what Ctrl-C has ended
let ticker

// What is installed depends on the lock file and on the platform (a folder may be shared with a container).
const wanted = createHash('sha256')
  .update(readFileSync(path.join(root, 'package-lock.json')))
  .update(`${process.platform}-${process.arch}`)
  .digest('hex')

if (!isInstalled()) {
  await takeLock()
  try {
    // Somebody else may have installed it while we waited for the lock.
    if (!isInstalled()) await install()
  } finally {
    rmSync(lock, { force: true })
  }
}

function isInstalled() {
  try {
    return readFileSync(stamp, 'utf8') === wanted
  } catch {
    return false
  }
}

/** A lock file is made by one process only, so two first commands at the same time install once. */
async function takeLock() {
  for (let waitedMs = 0; ; waitedMs += LOOK_MS) {
    try {
      writeFileSync(lock, String(process.pid), { flag: 'wx' })
      process.on('exit', () => rmSync(lock, { force: true }))
      return
    } catch (error) {
      if (error.code !== 'EEXIST') {
        stop(
          `Sandman cannot install its dependencies: ${root} is not writable (${error.code}). Clone it into a folder of your own.`,
        )
      }
    }
    if (isInstalled() || isAbandoned()) rmSync(lock, { force: true })
    else if (waitedMs % 10_000 === 0)
      say(
        `Another command is installing the dependencies in this folder; waiting for it${waitedMs ? `, ${waitedMs / 1000} s` : ''}.`,
      )
    await new Promise((resolve) => setTimeout(resolve, LOOK_MS))
  }
}

/** Its process is gone; or, where that cannot be seen (another container), it has not been touched for a long time. */
function isAbandoned() {
  const touchedAt = statSync(lock, { throwIfNoEntry: false })?.mtimeMs ?? Date.now()
  if (Date.now() - touchedAt > LOCK_STALE_MS) return true
  try {
    process.kill(Number(readFileSync(lock, 'utf8')), 0)
    return false
  } catch (error) {
    return error.code === 'ESRCH'
  }
}

async function install() {
  say('Installing dependencies (once, usually under a minute)')
  const startedAt = Date.now()
  // Who was stopped in the middle may have left packages whose files or scripts are missing, and npm takes them for whole.
  if (existsSync(begun)) rmSync(path.dirname(begun), { recursive: true, force: true })
  mkdirSync(path.dirname(begun), { recursive: true })
  writeFileSync(begun, '')
  ticker = setInterval(() => {
    say(`  still installing, ${seconds(startedAt)} s`)
    utimesSync(lock, new Date(), new Date())
  }, 10_000)
  // Not `npm ci`: it refuses a lock file that lacks the packages of other platforms, which a registry mirror may not have.
  const code = await runNpm(['install', '--no-save', '--loglevel=error', '--no-fund', '--no-audit'])
  clearInterval(ticker)
  if (code !== 0) stop(`Sandman could not install its dependencies: npm ended with ${code}; its message is above.`)
  mkdirSync(path.dirname(stamp), { recursive: true }) // npm removes a folder that it has nothing to put into
  writeFileSync(stamp, wanted)
  rmSync(begun, { force: true })
  say(`Installed in ${seconds(startedAt)} s`)
}

function runNpm(args) {
  // npm tells its scripts where it is; outside of npm the one on the path will do.
  const npm = process.env.npm_execpath
  const child = npm?.endsWith('.js')
    ? spawn(process.execPath, [npm, ...args], { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
    : spawn('npm', args, { cwd: root, stdio: ['ignore', 'inherit', 'inherit'] })
  let isStopping = false
  // Whoever stops us stops npm too, and the lock is released only when it has ended. npm likes to finish first; not for long.
  const stopNpm = (signal) => {
    if (!isStopping) say('Stopping the installation; the next command begins it again.')
    clearInterval(ticker)
    child.kill(isStopping ? 'SIGKILL' : signal)
    isStopping = true
    setTimeout(() => child.kill('SIGKILL'), STOP_MS).unref()
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(signal, stopNpm)
  return new Promise((resolve) => {
    child.on('error', (error) => resolve(error.message))
    child.on('exit', (exitCode, signal) => (isStopping ? process.exit(STOPPED) : resolve(exitCode ?? signal)))
  })
}

function seconds(since) {
  return Math.round((Date.now() - since) / 1000)
}

function say(text) {
  process.stderr.write(`${text}\n`)
}

function stop(text) {
  say(text)
  process.exit(1)
}
