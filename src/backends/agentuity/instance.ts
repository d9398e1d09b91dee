import type { SandboxInfo } from '@agentuity/server'
import { BackendError, type Call, type Owner, type Target } from '../backend.ts'
import { overtaken } from '../targets.ts'
import type { Account } from './account.ts'
import { isRefusal, Unanswered } from './errors.ts'
import { readHistory, type Sleep } from './history.ts'
import { isSandboxId, ownerOf } from './names.ts'
import { ask, unlessGone } from './request.ts'

type Condition =
  | { is: 'running'; incarnation: string }
  | { is: 'asleep'; sleep: Sleep | undefined }
  /** `isUnknownRun`: it runs, and nobody can tell as what. So it can be ended by who means whatever is there, and by nobody else. */
  | { is: 'changing'; why: string; isUnknownRun?: true }
  /** Terminated or failed: what is left of it can be looked at, and ended. */
  | { is: 'lost'; why: string }

export type Instance = Condition & {
  ref: string
  owner: Owner | undefined
  info: SandboxInfo
}

export type Running = Extract<Instance, { is: 'running' }>

/**
 * What is true of a sandbox now; undefined when Agentuity says that there is none. One that carries the label of another fleet is
 * not touched. One that carries none was adopted: whoever knows its name has the right to it.
 */
export async function findInstance(account: Account, ref: string, call: Call): Promise<Instance | undefined> {
  if (!isSandboxId(ref)) return undefined
  // Before it is seen to run: what it may have slept meanwhile would otherwise be taken for the beginning of this run.
  const before = await readHistory(account, ref, call).catch((error: unknown) => {
    if (isRefusal(error, 404)) return error // as it should be of one that is not there
    throw error
  })
  const info = await readInfo(account, ref, call)
  if (!info) return undefined
  if (before instanceof Error) throw before
  const { owner, elsewhere } = ownerOf(account, info)
  if (elsewhere !== undefined)
    throw new BackendError('spec_invalid', `${ref} belongs to fleet ${elsewhere}, and this one is ${account.fleet}`)
  const condition = await conditionOf(account, info, before.incarnation, call)
  // What is still shown of one that was destroyed are no remains: there is nothing left to end.
  return condition.is === 'lost' && before.isDestroyed ? undefined : { ...condition, ref, owner, info }
}

async function readInfo(account: Account, ref: string, call: Call): Promise<SandboxInfo | undefined> {
  const asked = ask(account, call, (sdk, client, common) => sdk.sandboxGet(client, { ...common, sandboxId: ref }))
  const info = await unlessGone(account, 'sandbox', ref, call, asked)
  if (info && info.sandboxId !== ref)
    throw new Unanswered(new Error(`the answer is about ${info.sandboxId}, and the question was about ${ref}`))
  return info?.status === 'deleted' ? undefined : info
}

async function conditionOf(
  account: Account,
  { sandboxId, status, exitCode }: SandboxInfo,
  incarnation: string | undefined,
  call: Call,
): Promise<Condition> {
  switch (status) {
    case 'idle':
    case 'running': {
      if (incarnation !== undefined) return { is: 'running', incarnation }
      const why = 'Agentuity tells its last events, and in none of them it slept: nobody knows which run this is'
      return { is: 'changing', why, isUnknownRun: true }
    }
    case 'suspended':
    case 'paused':
      // After it is seen to sleep: what was recorded of that is recorded by now, or will be.
      return { is: 'asleep', sleep: (await readHistory(account, sandboxId, call)).sleep }
    case 'terminated':
    case 'failed':
      return {
        is: 'lost',
        why: `Agentuity says that it has ${status}${exitCode === undefined ? '' : `, with ${exitCode}`}`,
      }
    default:
      return { is: 'changing', why: `Agentuity says that it is ${status}` }
  }
}

export async function requireInstance(account: Account, ref: string, call: Call): Promise<Instance> {
  const instance = await findInstance(account, ref, call)
  if (!instance) throw expired(ref)
  return instance
}

export function expired(ref: string, why = 'Agentuity says that there is no such sandbox'): BackendError {
  return new BackendError('sandbox_expired', `${ref} is not there any more: ${why}`)
}

/** The incarnation that is meant, as long as it is the one that runs. */
export function requireRunning(instance: Instance, target: Target): asserts instance is Running {
  const { ref } = instance
  if (instance.is === 'lost') throw expired(ref, instance.why)
  if (instance.is === 'changing') throw new BackendError('sandbox_unreachable', `${ref} is on its way: ${instance.why}`)
  if (instance.is === 'asleep') throw overtaken(ref, 'it sleeps')
  if (instance.incarnation !== target.incarnation)
    throw overtaken(
      ref,
      `it runs as ${instance.incarnation}, and ${target.incarnation ?? 'one that does not run'} was meant`,
    )
}

/** Fails unless the end is meant for what is there: this incarnation, or one that does not run. */
export function requireEndable(instance: Instance, target: Target): void {
  if (instance.is === 'running') requireRunning(instance, target)
  else if (instance.is === 'asleep' && target.incarnation !== null)
    throw overtaken(instance.ref, `it sleeps, and what runs as ${target.incarnation} was meant`)
  else if (instance.is === 'changing' && instance.isUnknownRun && target.incarnation !== null)
    throw overtaken(instance.ref, `${instance.why}, and ${target.incarnation} was meant`)
}
