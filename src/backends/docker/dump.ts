import { setTimeout as delay } from 'node:timers/promises'
import { BackendError, type Call } from '../backend.ts'
import { type Container, inspectContainer, rename, start, startLetters, takeBack } from './containers.ts'
import { Refusal, says } from './errors.ts'
import type { Instance } from './instance.ts'
import { wordOf } from './names.ts'
import { readInfo, type Site } from './site.ts'
import { Unsettled } from './targets.ts'

const POLL_MS = 50
/** The engine may answer before it has noticed that what it has written down is gone. */
const EXIT_MS_MAX = 10_000

/**
 * The engine's own checkpoints: memory is written to its disk, and the container has ended until it is started from that.
 *
 * Killed half-way: the engine goes on, and it has ended by this, or it runs.
 * Several at once: the engine writes one, and refuses the others. What it has written is not touched by them.
 */
export async function dump(
  site: Site,
  instance: Instance & { agent: Container },
  key: string,
  call: Call,
): Promise<string> {
  const { agent, ref } = instance
  requireDumpable(instance)
  await requireCheckpoints(site, call)
  const sleep = { mode: 'checkpoint', key: wordOf(key), startedAt: startLetters(agent) } as const
  const name = await rename(site, agent, { ...agent.name, sleep }, call)
  const path = `/containers/${name}/checkpoints`
  const body = { CheckpointID: sleep.key, Exit: true }
  await site.engine.done({ method: 'POST', path, body }, call).catch(async (error: unknown) => {
    if (says(error, [409, 500], /already exists/i)) throw new Unsettled(ref, 'somebody else puts it to sleep')
    // The engine has said no, so it runs on, and its own end would otherwise look like sleep.
    if (error instanceof Refusal && error.isOwn) await takeBack(site, { ...agent, fullName: name }, call)
    throw error
  })
  for (const until = Date.now() + EXIT_MS_MAX; ; await delay(POLL_MS, undefined, call)) {
    const now = await inspectContainer(site, agent.id, call)
    if (now?.state !== 'running') return sleep.key
    if (Date.now() > until) throw new BackendError('sandbox_unreachable', `${ref} runs on after its checkpoint`)
  }
}

/** Fails while it runs, rather than with something that cannot be woken. */
function requireDumpable({ ref, agent, sidecar }: Instance & { agent: Container }): void {
  const { Runtime = 'runc' } = agent.inspected.HostConfig as { Runtime?: string }
  const why = sidecar
    ? 'has a sidecar, whose memory no checkpoint of the engine holds'
    : // Seen with Docker 20.10 and gVisor: the second checkpoint is written, and cannot be started from.
      agent.name.wokenBy !== undefined && Runtime !== 'runc'
      ? `has been woken before, and with the runtime ${Runtime} the engine does not do that twice`
      : undefined
  if (why !== undefined) throw new BackendError('spec_invalid', `${ref} ${why}: pause it by freezing.`)
}

/** Wakes it, and removes what it was woken from: its memory and its files would not belong together any more. */
export async function restore(site: Site, { agent, ref }: Instance & { agent: Container }, key: string, call: Call) {
  const { sleep } = agent.name
  const checkpoint = sleep?.key ?? ''
  if (!(await hasDump(site, agent.id, checkpoint, call)))
    throw new BackendError('checkpoint_missing', `The Docker engine has no checkpoint ${checkpoint} of ${ref} any more`)
  const woken = { ...agent.name, wokenBy: wordOf(key) }
  const fullName = await rename(site, agent, woken, call)
  await start(site, fullName, call, { checkpoint }).catch((error: unknown) => {
    // The engine has not put away all of what ended with the checkpoint.
    throw says(error, 500, /already (in use|exists)/i)
      ? new Unsettled(ref, 'the engine is not done with its last end')
      : error
  })
  await rename(site, { fullName }, { ...woken, sleep: undefined }, call)
  await deleteDump(site, agent.id, checkpoint, call)
}

export async function hasDump({ engine }: Site, id: string, checkpoint: string, call: Call): Promise<boolean> {
  const path = `/containers/${id}/checkpoints`
  const listed = await engine.list<{ Name: string }>({ method: 'GET', path }, call)
  return listed.some(({ Name }) => Name === checkpoint)
}

async function deleteDump({ engine }: Site, id: string, checkpoint: string, call: Call): Promise<void> {
  await engine.done({ method: 'DELETE', path: `/containers/${id}/checkpoints/${checkpoint}` }, call).catch((error) => {
    if (!says(error, [404, 500], /no such file|does not exist|no such checkpoint/i)) throw error
  })
}

/** An engine that is not experimental does not even know the words. */
export async function requireCheckpoints({ engine }: Site, call: Call): Promise<void> {
  const { ExperimentalBuild } = await readInfo(engine, call)
  if (!ExperimentalBuild)
    throw new BackendError(
      'spec_invalid',
      'This Docker engine has no checkpoints: start it with `"experimental": true`, or pause by freezing.',
    )
}
