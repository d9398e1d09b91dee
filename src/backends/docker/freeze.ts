import type { Call } from '../backend.ts'
import { type Container, pause, rename, startLetters, unpause } from './containers.ts'
import type { Instance } from './instance.ts'
import { wordOf } from './names.ts'
import type { Site } from './site.ts'

/** How long to undo what was given up may take. */
const UNDO_MS_MAX = 10_000

/**
 * The engine's own pause: nothing runs, and everything stays in memory.
 *
 * Its name says first that it is about to sleep, then the sidecar is frozen, and the agent last: it sleeps when all of it does.
 * Killed half-way: the agent runs, so it is tried again, or woken with its sidecar.
 */
export async function freeze(site: Site, { agent, sidecar }: Instance & { agent: Container }, key: string, call: Call) {
  const sleep = { mode: 'freeze', key: wordOf(key), startedAt: startLetters(agent) } as const
  const name = await rename(site, agent, { ...agent.name, sleep }, call)
  try {
    if (sidecar?.State === 'running') await pause(site, sidecar.Id, call)
    await pause(site, name, call)
  } catch (error) {
    if (sidecar) await unpause(site, sidecar.Id, { signal: AbortSignal.timeout(UNDO_MS_MAX) }).catch(() => {})
    throw error
  }
  return sleep.key
}

/** The new incarnation is in its name before anything of it runs. */
export async function thaw(site: Site, { agent, sidecar }: Instance & { agent: Container }, key: string, call: Call) {
  const woken = { ...agent.name, wokenBy: wordOf(key) }
  const fullName = await rename(site, agent, woken, call)
  if (sidecar?.State === 'paused') await unpause(site, sidecar.Id, call)
  await unpause(site, fullName, call)
  await rename(site, { fullName }, { ...woken, sleep: undefined }, call)
}
