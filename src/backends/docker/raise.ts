import { setTimeout as delay } from 'node:timers/promises'
import { BackendError, type Call, type Owner } from '../backend.ts'
import { type Container, inspectContainer, makeContainer, start } from './containers.ts'
import { type Refusal, says } from './errors.ts'
import { findInstance } from './instance.ts'
import { containerLabels } from './labels.ts'
import type { Site } from './site.ts'

/** What a sandbox's containers are made from. */
type Plan = {
  ref: string
  owner: Owner
  hasAgent: boolean
  image: string
  /** When the engine has no such image: returns if it has one now. */
  bringImage(): Promise<void>
  /** What they are made with, besides image and labels. A sidecar needs to know whose network it shares. */
  agent: object
  sidecar: ((agent: Container) => { Image: string }) | undefined
}

/** How long whoever has made a container may take to start it, before somebody else does. */
const START_MS_MAX = 2_000
const POLL_MS = 50

/**
 * Makes the containers with their labels, and then starts them.
 *
 * Asked twice, also at once: a name is given once, and whoever finds it taken finishes what is there.
 * Killed half-way: there is nothing, or something labelled that is not started, which the next attempt starts.
 */
export async function raise(site: Site, plan: Plan, call: Call): Promise<void> {
  const { ref, sidecar } = plan
  const sidecarName = `${ref}.sidecar`
  const found = await findInstance(site, ref, call)
  const isMine = !found.agent && (await make(site, plan, call))
  const agent = found.agent ?? (await findMade(site, ref, call))
  const hasEnded = agent.state === 'exited' || agent.state === 'dead'
  if (sidecar && !found.sidecar && !hasEnded) {
    const Labels = labelsOf(site, plan, 'sidecar')
    await makeContainer(site, sidecarName, { ...sidecar(agent), Labels }, call)
  }
  if (agent.state === 'created' && (isMine || !(await isStartedByAnother(site, agent, call))))
    await startAgent(site, agent, call)
  if (sidecar && !hasEnded) await startSidecar(site, sidecarName, call)
}

/** False where somebody else has made it. */
async function make(site: Site, plan: Plan, call: Call): Promise<boolean> {
  const body = { ...plan.agent, Image: plan.image, Labels: labelsOf(site, plan, 'agent') }
  const attempt = () => makeContainer(site, plan.ref, body, call)
  try {
    const made = await attempt().catch(async (error: unknown) => {
      if (!says(error, 404, /no such image/i)) throw error
      await plan.bringImage()
      return attempt()
    })
    return made !== undefined
  } catch (error) {
    if (!says(error, 400, /./)) throw error
    throw new BackendError('spec_invalid', `The Docker engine does not make ${plan.ref}: ${(error as Refusal).text}`)
  }
}

/** A name is taken a moment before whoever has it is listed. */
async function findMade(site: Site, ref: string, call: Call): Promise<Container> {
  for (const until = Date.now() + START_MS_MAX; Date.now() < until; await delay(POLL_MS, undefined, call)) {
    const { agent } = await findInstance(site, ref, call)
    if (agent) return agent
  }
  throw new BackendError(
    'sandbox_unreachable',
    `The name ${ref} is taken at the Docker engine by a container that is not Sandman's: remove that, or rename it.`,
  )
}

function labelsOf({ home }: Site, { ref, owner, hasAgent }: Plan, part: 'agent' | 'sidecar') {
  return containerLabels({ ...owner, fleet: home.fleet, ref }, part, hasAgent)
}

/** Waits for whoever has made it to start it. If two did, and it ended in between, it would run twice. */
async function isStartedByAnother(site: Site, { id }: Container, call: Call): Promise<boolean> {
  for (const until = Date.now() + START_MS_MAX; Date.now() < until; ) {
    const now = await inspectContainer(site, id, call)
    if (now?.state !== 'created') return true
    await delay(POLL_MS, undefined, call)
  }
  return false
}

/** What the engine says of a command that there is not, or that cannot be run. */
const CANNOT_RUN =
  /OCI runtime|executable file not found|exec format error|no such file or directory|permission denied/i

/** And what it says, with the same words around it, when it cannot do it just now. */
const TROUBLE = /no space left|cannot allocate memory|resource temporarily unavailable|\.sock|too many open files/i

async function startAgent(site: Site, { fullName }: Container, call: Call): Promise<void> {
  await start(site, fullName, call).catch((error: unknown) => {
    if (!says(error, [400, 404, 500], CANNOT_RUN) || says(error, 500, TROUBLE)) throw error
    throw new BackendError('spec_invalid', `${fullName} cannot be started: ${(error as Refusal).text}`, {
      cause: error,
    })
  })
}

/** Whose agent has ended meanwhile has no network to share. What became of the agent, a look tells. */
async function startSidecar(site: Site, name: string, call: Call): Promise<void> {
  const sidecar = await inspectContainer(site, name, call)
  if (sidecar?.state !== 'created') return
  await start(site, sidecar.id, call).catch((error: unknown) => {
    if (!says(error, [404, 409, 500], /cannot join network of a non running container|No such container/i)) throw error
  })
}
