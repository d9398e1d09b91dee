import type { SandboxCreateOptions } from '@agentuity/server'
import { BackendError, type Call, type Wanted } from '../backend.ts'
import { byAge } from '../pages.ts'
import { startAgent } from '../shell/start.ts'
import { endFormer } from '../shell/stop.ts'
import type { Account } from './account.ts'
import { destroy } from './end.ts'
import { isRefusal } from './errors.ts'
import { enter } from './inside.ts'
import { findInstance, type Instance, type Running, requireInstance } from './instance.ts'
import { findOwned } from './lists.ts'
import { labelsOf } from './names.ts'
import { ask } from './request.ts'
import { verifyCheckpoint } from './snapshots.ts'
import { optionsOf, requirePossible } from './spec.ts'
import { lookUntil } from './waiting.ts'
import { leaveWitness } from './witness.ts'

/**
 * Makes a sandbox with its labels, unless there is one of this life, and then starts in it what its spec says.
 *
 * Asked by two at once: Agentuity makes two, both see both, and the one that did not make the oldest ends its own.
 * Killed half-way, or its answer lost: what was made carries its name, and the next attempt finds it, and starts in it what is
 * missing.
 */
export async function createInstance(account: Account, wanted: Wanted, call: Call): Promise<{ ref: string }> {
  requirePossible(wanted)
  const [oldest, ...others] = await findLiving(account, wanted, call)
  // Of those that were made by requests nobody heard the answer of, one is enough.
  for (const { ref } of others) await destroy(account, ref, call)
  const ref = oldest?.ref ?? (await makeOne(account, wanted, call))
  const instance = await comesAwake(account, ref, call)
  await requireKept(account, instance, call)
  await startParts(account, instance, wanted, call)
  return { ref }
}

/** One that has ended before it was used is made anew. */
async function findLiving(account: Account, wanted: Wanted, call: Call) {
  const all = await findOwned(account, wanted, call)
  for (const { ref, isDead } of all) if (isDead) await destroy(account, ref, call)
  return all.filter(({ isDead }) => !isDead)
}

async function makeOne(account: Account, wanted: Wanted, call: Call): Promise<string> {
  const own = await make(account, wanted, call)
  const rivals = (await findOwned(account, wanted, call)).filter(({ ref, isDead }) => ref !== own && !isDead)
  if (rivals.length === 0) return own
  const { info } = await comesToBeKnown(account, own, call)
  const [oldest] = [...rivals, { ref: own, born: info.createdAt }].sort(byAge)
  if (!oldest || oldest.ref === own) return own
  await destroy(account, own, call)
  return oldest.ref
}

async function make(account: Account, wanted: Wanted, call: Call): Promise<string> {
  const { checkpointRef } = wanted
  if (checkpointRef !== undefined) await requireSnapshot(account, checkpointRef, call)
  const options: SandboxCreateOptions = { ...optionsOf(wanted), ...labelsOf(account, wanted) }
  const made = await ask(account, call, (sdk, client, common) => sdk.sandboxCreate(client, { ...common, options }), {
    isSlow: true,
  }).catch(async (error: unknown) => {
    if (!isRefusal(error, 400, 404, 409)) throw error
    if (checkpointRef !== undefined) await requireSnapshot(account, checkpointRef, call)
    // A 404 may be anybody's; one that names what it does not find is Agentuity's.
    const isTelling = error.status === 400 ? error.isOwn : error.status === 404 && /runtime|snapshot/i.test(error.text)
    if (!isTelling) throw error
    throw new BackendError('spec_invalid', `Agentuity does not make such a sandbox: ${error.text}`)
  })
  return made.sandboxId
}

async function requireSnapshot(account: Account, checkpointRef: string, call: Call): Promise<void> {
  const condition = await verifyCheckpoint(account, checkpointRef, call)
  if (condition.is === 'missing') throw new BackendError('checkpoint_missing', condition.why)
}

/** Of one that was just made, Agentuity may not know yet, or not all. */
async function comesToBeKnown(account: Account, ref: string, call: Call): Promise<Instance> {
  const known = await lookUntil(
    account.patience.lagMs,
    call,
    () => findInstance(account, ref, call),
    (seen) => seen !== undefined,
  )
  if (known) return known
  // Nothing is lost by making it anew.
  throw new BackendError('sandbox_unreachable', `Agentuity says that it has made ${ref}, and that there is none`)
}

async function comesAwake(account: Account, ref: string, call: Call): Promise<Running> {
  await comesToBeKnown(account, ref, call)
  const seen = await lookUntil(
    account.patience.startingMs,
    call,
    () => requireInstance(account, ref, call),
    ({ is }) => is !== 'changing',
  )
  if (seen.is === 'running') return seen
  throw new BackendError('sandbox_unreachable', `${ref} was made, and does not run: it is ${seen.info.status}`)
}

/** Agentuity ends what was paused for too long, unless it was asked not to, and has understood that. */
async function requireKept(account: Account, { ref, info }: Running, call: Call): Promise<void> {
  const paused = info.timeout?.paused
  if (paused === undefined || /^0+[a-z]*$/.test(paused)) return
  await destroy(account, ref, call)
  throw new BackendError(
    'quota_exceeded',
    `Agentuity would end a sandbox ${paused} after it was paused, although it was asked to keep it`,
  )
}

/** Each is started once, however often it is asked for. */
async function startParts(account: Account, instance: Running, { spec, checkpointRef }: Wanted, call: Call) {
  const { agent } = spec
  await enter(account, instance, call, async (inside) => {
    // What has come with a copy is of another life.
    if (checkpointRef !== undefined) await endFormer(inside, call)
    await leaveWitness(inside, call)
    if (agent?.sidecar) await startAgent(inside, { part: 'sidecar', ...agent.sidecar }, call)
    if (agent) await startAgent(inside, { part: 'agent', command: agent.command }, call)
  })
}
