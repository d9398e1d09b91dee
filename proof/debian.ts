import { execFile } from 'node:child_process'
import { access, constants } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'

const run = promisify(execFile)
const TRIES = 10
const APT_MS = 300_000

/** The path of the first of these programs that this machine has. */
export async function findProgram(...names: string[]): Promise<string | undefined> {
  const folders = [...(process.env.PATH ?? '').split(':'), '/usr/local/bin', '/usr/sbin', '/usr/bin', '/bin']
  for (const folder of folders.filter((each) => each !== '')) {
    for (const name of names) if (await isExecutable(path.join(folder, name))) return path.join(folder, name)
  }
  return undefined
}

/**
 * What a look finds, once these packages of Debian are installed if it finds nothing, and if we may install any. Others on this
 * machine may be installing at this moment: apt then waits for a while or refuses, and the next look finds it there.
 */
export async function findOrInstall<T>(
  look: () => Promise<T | undefined>,
  ...packages: string[]
): Promise<T | undefined> {
  const mayInstall = process.getuid?.() === 0 && (await isExecutable('/usr/bin/apt-get'))
  for (let tries = 0; ; tries++) {
    const found = await look()
    if (found !== undefined || !mayInstall || tries === TRIES) return found
    if (tries === 0) process.stderr.write(`Installing Debian's ${packages[0]}\n`)
    await install(packages)
  }
}

async function install(packages: string[]): Promise<void> {
  const options = { env: { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }, timeout: APT_MS }
  const wanted = ['install', '-qy', '--no-install-recommends', '-o', 'DPkg::Lock::Timeout=120', ...packages]
  await run('apt-get', ['update', '-q'], options).catch(() => undefined)
  await run('apt-get', wanted, options).catch(() => sleep(3_000))
}

async function isExecutable(file: string): Promise<boolean> {
  return access(file, constants.X_OK).then(
    () => true,
    () => false,
  )
}
