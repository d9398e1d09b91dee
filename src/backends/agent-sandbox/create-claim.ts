import { BackendError, type Call, type Wanted } from '../backend.ts'
import { says } from '../kubernetes/errors.ts'
import { labelsOf } from '../kubernetes/labels.ts'
import { nameOf, refOf } from '../kubernetes/names.ts'
import { type AskedAgent, startAgent } from '../shell/start.ts'
import { claimsPath, deleteClaim } from './claim.ts'
import { type Instance, requireInstance, sightingOf } from './instance.ts'
import type { Site } from './site.ts'

/** On a claim: what is started in what it gets, then and whenever that wakes. A pod of a pool runs before it is anybody's. */
const AGENT = 'sandman.agent'

/** How long a pool may take to have one, and a cold start. */
const BOUND_MS_MAX = 100_000
const LOOK_AGAIN_MS = 250

/** Reasons for which no claim of this pool will ever be served. */
const WRONG = ['WarmPoolNotFound']

/**
 * Takes one from the pool, and starts in it what its spec says. The claim has the name of the life, so one is taken, however often that
 * is asked for; and whoever died before the agent was started is followed by somebody who starts it.
 */
export async function createClaim(site: Site, wanted: Wanted, pool: string, call: Call): Promise<{ ref: string }> {
  requireSimple(wanted)
  const { api, home } = site.cluster
  const { agent } = wanted.spec
  const name = nameOf(home, wanted)
  const ref = refOf(home, name)
  const asked: AskedAgent | undefined = agent && { part: 'agent', command: agent.command, env: agent.env }
  const body = {
    apiVersion: 'extensions.agents.x-k8s.io/v1beta1',
    kind: 'SandboxClaim',
    metadata: {
      name,
      labels: labelsOf(home, wanted, 'agent-sandbox'),
      annotations: { [AGENT]: JSON.stringify(asked ?? null) },
    },
    spec: { warmPoolRef: { name: pool } },
  }
  await api.json({ method: 'POST', path: claimsPath(site), body }, call).catch((error: unknown) => {
    if (!says(error, 409, 'AlreadyExists')) throw error
  })
  const instance = await whenBound(site, ref, pool, call)
  await startClaimed(site, instance, call)
  return { ref }
}

function requireSimple({ spec, checkpointRef }: Wanted): void {
  const asked = {
    'agent.sidecar': spec.agent?.sidecar,
    'limits.memoryBytesMax': spec.limits?.memoryBytesMax,
    'limits.cpusMax': spec.limits?.cpusMax,
    readOnlyRoot: spec.readOnlyRoot || undefined,
    from: checkpointRef,
  }
  for (const [name, value] of Object.entries(asked))
    if (value !== undefined)
      throw new BackendError(
        'spec_invalid',
        `In a warm pool its template decides \`${name}\`: change that, or name an image as \`template\``,
      )
}

async function whenBound(site: Site, ref: string, pool: string, call: Call): Promise<Instance> {
  for (const until = Date.now() + BOUND_MS_MAX; ; await site.cluster.watch.change(ref, LOOK_AGAIN_MS, call)) {
    const instance = await requireInstance(site, ref, call)
    const { claim } = instance
    if (sightingOf(instance).is === 'running') return instance
    if (claim && !claim.boundTo && WRONG.includes(claim.reason)) {
      await deleteClaim(site, claim, call)
      throw new BackendError('spec_invalid', `Nothing can be claimed from warm pool ${pool}: ${claim.why}`)
    }
    if (Date.now() < until) continue
    const seen = sightingOf(instance)
    throw new BackendError('sandbox_unreachable', `${ref} is not there yet: ${'why' in seen ? seen.why : seen.is}`)
  }
}

/** Starts the agent that a claimed sandbox is to have, unless that runs in it. */
export async function startClaimed(site: Site, { ref, claim }: Instance, call: Call): Promise<void> {
  const asked = JSON.parse(claim?.annotations[AGENT] ?? 'null') as AskedAgent | null
  if (!asked) return
  const seen = sightingOf(await requireInstance(site, ref, call))
  if (seen.is !== 'running') throw new BackendError('sandbox_unreachable', `${ref} does not run any more`)
  await site.agents.enter({ ref, incarnation: seen.incarnation }, call, (inside) => startAgent(inside, asked, call))
}
