import { BackendError, type Call, type Wanted } from '../backend.ts'
import { labelsOf } from '../kubernetes/labels.ts'
import { refOf } from '../kubernetes/names.ts'
import { makeOnce } from '../kubernetes/objects.ts'
import { incarnationOf } from '../kubernetes/pod.ts'
import { stateOf, whyOf } from '../kubernetes/pod-state.ts'
import { requireWithout } from '../require-without.ts'
import { type AskedAgent, startAgent } from '../shell/start.ts'
import { CLAIM_MARK, changeClaim, claimNameOf, claimsPath, deleteClaim } from './claim.ts'
import { type Instance, requireInstance } from './instance.ts'
import { despiteOthers, lookAgainMs } from './patience.ts'
import { changeSandbox, MARK } from './resource.ts'
import { sightingOf } from './sighting.ts'
import type { Site } from './site.ts'

/** How long a pool may take to have one, and a cold start. */
const BOUND_MS_MAX = 100_000

/** Reasons for which no claim of this pool will ever be served. */
const WRONG = ['WarmPoolNotFound', 'TemplateNotFound']

/**
 * Takes one from the pool, and starts in it what its spec says. The claim has the name of the life, so one is taken, however often that
 * is asked for; and whoever died before the agent was started is followed by somebody who starts it.
 */
export async function createClaim(site: Site, wanted: Wanted, pool: string, call: Call): Promise<{ ref: string }> {
  requireWithout(
    wanted,
    ['agent.sidecar', 'limits.memoryBytesMax', 'limits.cpusMax', 'readOnlyRoot', 'from'],
    (name) => `In a warm pool its template decides \`${name}\`: change that, or name an image as \`template\``,
  )
  const { api, home } = site.cluster
  const { agent } = wanted.spec
  const name = claimNameOf(home, wanted)
  const ref = refOf(home, name)
  const asked: AskedAgent | undefined = agent && { part: 'agent', command: agent.command, env: agent.env }
  const body = {
    apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
    kind: 'SandboxClaim',
    metadata: {
      name,
      labels: labelsOf(home, wanted, 'agent-sandbox'),
      annotations: { [CLAIM_MARK.agent]: JSON.stringify(asked ?? null) },
    },
    spec: { warmPoolRef: { name: pool } },
  }
  const find = async () => (await requireInstance(site, ref, call)).claim
  await makeOnce(api, { path: claimsPath(site), body }, { ref, life: wanted.life, find }, call)
  await startClaimed(site, await whenBound(site, ref, pool, call), call)
  return { ref }
}

async function whenBound(site: Site, ref: string, pool: string, call: Call): Promise<Instance> {
  const until = Date.now() + BOUND_MS_MAX
  for (let looks = 0; ; await site.cluster.watch.change(ref, lookAgainMs(looks++), call)) {
    const instance = await requireInstance(site, ref, call)
    const { claim, sandbox, pod } = instance
    if (claim && sandbox && pod && stateOf(pod).is === 'running') {
      if (claim.got === sandbox.uid) return instance
      // Otherwise nobody would notice that it is another one later.
      if (!claim.got)
        await changeClaim(site, claim, { metadata: { annotations: { [CLAIM_MARK.got]: sandbox.uid } } }, call)
    }
    if (claim && !claim.boundTo && WRONG.includes(claim.reason)) {
      await deleteClaim(site, claim, call)
      throw new BackendError('spec_invalid', `Nothing can be claimed from warm pool ${pool}: ${claim.why}`)
    }
    if (Date.now() < until) continue
    throw new BackendError('sandbox_unreachable', `${ref} is not there yet: ${whyOf(sightingOf(instance))}`)
  }
}

/**
 * Starts the agent that a claimed sandbox is to have, unless that runs in it, and writes down that it was started in this pod: one that
 * replaces it has none, and is not awake before it has.
 */
export async function startClaimed(site: Site, { ref, claim, pod }: Instance, call: Call): Promise<void> {
  const { agent } = claim ?? {}
  if (!agent || !pod) return
  const target = { ref, incarnation: incarnationOf(pod) }
  await site.agents.enter(target, call, (inside) => startAgent(inside, agent, call))
  const metadata = { annotations: { [MARK.agentIn]: pod.uid } }
  await despiteOthers(ref, async () => {
    const { sandbox } = await requireInstance(site, ref, call)
    const isDone = !sandbox || sandbox.annotations[MARK.agentIn] === pod.uid
    return isDone || (await changeSandbox(site, sandbox, { metadata }, call)) !== undefined
  })
}
