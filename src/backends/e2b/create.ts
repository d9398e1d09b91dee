import { z } from 'zod'
import { BackendError, type Call, type Wanted } from '../backend.ts'
import { byAge } from '../pages.ts'
import { requireWithout } from '../require-without.ts'
import { startAgent } from '../shell/start.ts'
import { endFormer } from '../shell/stop.ts'
import type { Account } from './account.ts'
import { killSandbox } from './end.ts'
import { isRefusal } from './errors.ts'
import { enter } from './inside.ts'
import { findInstance, labelsOf, requireInstance } from './instance.ts'
import { findOwned } from './pages.ts'
import { isPause } from './pausing.ts'
import { fetchFrom } from './request.ts'
import { withTtl } from './ttl.ts'

/** What E2B has where nothing is asked for. */
const DEFAULT_TEMPLATE = 'base'

const Made = z.object({ sandboxID: z.string().min(1) })

/**
 * Makes a sandbox with its labels, unless there is one of this life, and then starts in it what its spec says.
 *
 * Asked by two at once: E2B makes two, both see both, and the one that did not make the oldest ends its own.
 * Killed half-way: what was made carries its labels, and the next attempt finds it, and starts in it what is missing.
 */
export async function createInstance(account: Account, wanted: Wanted, call: Call): Promise<{ ref: string }> {
  requireSimple(wanted)
  const [oldest] = await findOwned(account, wanted, call)
  const ref = oldest?.ref ?? (await makeOne(account, wanted, call))
  await startParts(account, ref, wanted, call)
  return { ref }
}

function requireSimple(wanted: Wanted): void {
  const { checkpointRef } = wanted
  requireWithout(
    wanted,
    ['limits.memoryBytesMax', 'limits.cpusMax', 'readOnlyRoot'],
    (name) => `At E2B the template decides \`${name}\`: build one, and ask for that`,
  )
  if (checkpointRef !== undefined && isPause(checkpointRef))
    throw new BackendError(
      'spec_invalid',
      `${checkpointRef} is a pause, and at E2B only a snapshot can be what another sandbox begins as`,
    )
}

async function makeOne(account: Account, wanted: Wanted, call: Call): Promise<string> {
  const own = await make(account, wanted, call)
  const rivals = (await findOwned(account, wanted, call)).filter(({ ref }) => ref !== own)
  if (rivals.length === 0) return own
  const { incarnation: born } = await requireInstance(account, own, call)
  const [oldest] = [...rivals, { ref: own, born }].sort(byAge)
  if (!oldest || oldest.ref === own) return own
  await killSandbox(account, own, call)
  return oldest.ref
}

async function make(account: Account, { spec, checkpointRef, ttlMs, ...owner }: Wanted, call: Call): Promise<string> {
  const templateID = checkpointRef ?? spec.template ?? DEFAULT_TEMPLATE
  const body = {
    templateID,
    metadata: labelsOf(account, owner),
    ...(spec.agent?.env && { envVars: spec.agent.env }),
    // When its time is over all workers may be down: it is to sleep then, and not to be woken by whoever knocks.
    autoPause: true,
    autoResume: { enabled: false },
  }
  const made = await withTtl(ttlMs, (timeout) =>
    fetchFrom(account, call, Made, (api, signal) => api.POST('/v2/sandboxes', { body: { ...body, timeout }, signal }), {
      isSlow: true,
    }),
  ).catch((error: unknown) => {
    if (!isRefusal(error, 404)) throw error
    throw checkpointRef === undefined
      ? new BackendError('spec_invalid', `E2B has no template ${JSON.stringify(templateID)}: ${error.text}`)
      : new BackendError('checkpoint_missing', `E2B has no snapshot ${checkpointRef}: ${error.text}`)
  })
  if (!made) throw new BackendError('spec_invalid', 'E2B lets this account have no sandbox, for however short a time')
  return made.data.sandboxID
}

/** Each is started once, however often it is asked for. */
async function startParts(account: Account, ref: string, { spec, checkpointRef }: Wanted, call: Call): Promise<void> {
  const { agent } = spec
  const instance = await findInstance(account, ref, call)
  // Nothing is lost by making it anew.
  if (!instance)
    throw new BackendError('sandbox_unreachable', `E2B says that it has made ${ref}, and that there is none`)
  if (!instance.isRunning || (!agent && checkpointRef === undefined)) return
  await enter(account, instance, call, async (inside) => {
    // A snapshot has the memory of what it was taken of, too: its agents run on, and are nobody's.
    if (checkpointRef !== undefined) await endFormer(inside, call)
    if (agent?.sidecar) await startAgent(inside, { part: 'sidecar', ...agent.sidecar }, call)
    if (agent) await startAgent(inside, { part: 'agent', command: agent.command }, call)
  })
}
