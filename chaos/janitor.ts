/**
 * A process that removes whatever a run has left on this machine: started with it, and at work when the run says so or has died,
 * however it died. Arguments: the run's folder, by which all its processes are known, and the folder of its logs.
 */
import { readdir, rm } from 'node:fs/promises'
import path from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { removeCgroups } from '../src/backends/local/cgroups.ts'
import { makeHome } from '../src/backends/local/home.ts'
import { findInstance } from '../src/backends/local/instance.ts'
import { endEverything } from '../src/backends/local/processes.ts'
import { findMarked, signalTo } from './process-marks.ts'

/** Postgres and Redis have keepers, who stop them by themselves: that takes a moment. */
const CLEAN_MS_MAX = 60_000
const AGAIN_MS = 50

const [root, logs] = process.argv.slice(2) as [string, string]
let keepsLogs = false

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.on(signal, () => {})
process.on('message', (message) => {
  keepsLogs = message === 'keep the logs'
})
if (process.connected) await new Promise((resolve) => process.once('disconnect', resolve))

const until = Date.now() + CLEAN_MS_MAX
await killMarked()
for (const folder of await fleets()) await endSandboxes(folder)
await killMarked()
await remove(root)
if (!keepsLogs) await remove(logs)
process.exit(0)

async function killMarked(): Promise<void> {
  for (; Date.now() < until; await sleep(AGAIN_MS)) {
    const left = findMarked(root).filter(({ command }) => command !== '' && !command.includes('keeper.ts'))
    if (left.length === 0) return
    for (const { pid } of left) signalTo(pid, 'SIGKILL')
  }
}

async function fleets(): Promise<string[]> {
  return readdir(path.join(root, 'data', 'sandboxes')).catch(() => [])
}

/** What is frozen dies only when it is thawed, and cgroups outlive what was in them: the backend knows how. */
async function endSandboxes(fleet: string): Promise<void> {
  const home = await makeHome(path.join(root, 'data', 'sandboxes'), fleet)
  for (const ref of await readdir(home.instances)) {
    const instance = await findInstance(home, ref).catch(() => undefined)
    if (!instance) continue
    await endEverything(instance).catch(() => {})
    await removeCgroups(instance.labels.cgroups).catch(() => {})
  }
}

/** Whoever is still stopping may still be writing. */
async function remove(folder: string): Promise<void> {
  for (; Date.now() < until; await sleep(AGAIN_MS)) {
    try {
      await rm(folder, { recursive: true, force: true })
      return
    } catch {}
  }
}
