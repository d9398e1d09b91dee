import { z } from 'zod'
import { BackendError, type Call, type Owner, type Target } from '../backend.ts'
import { FLEET, LIFE, SANDBOX } from '../metadata-labels.ts'
import { overtaken } from '../targets.ts'
import type { Account } from './account.ts'
import { isRefusal, Refusal, Unanswered } from './errors.ts'
import { fetchFrom } from './request.ts'

/**
 * Cut to milliseconds: E2B keeps the times of a sandbox that sleeps less precisely than those of one that runs, and they have to
 * be equal.
 */
const moment = z.string().transform((text, context) => {
  const at = new Date(text)
  if (!Number.isNaN(at.getTime())) return at
  context.addIssue({ code: 'custom', message: `${text} is no time` })
  return z.NEVER
})

/** What a list and a look have in common. */
export const Listed = z.object({
  sandboxID: z.string().min(1),
  state: z.enum(['running', 'paused']),
  startedAt: moment,
  metadata: z.record(z.string(), z.string()).nullish(),
})

const Detail = Listed.extend({
  endAt: moment,
  envdVersion: z.string().min(1),
  envdAccessToken: z.string().nullish(),
  domain: z.string().nullish(),
})

export type Instance = {
  ref: string
  isRunning: boolean
  /** When it was started or resumed last, also of one that sleeps: the run that was paused. */
  incarnation: string
  endsAt: Date
  owner: Owner | undefined
  /** What is needed to reach what runs inside. */
  access: { envdVersion: string; envdAccessToken?: string; sandboxDomain?: string }
}

export function labelsOf({ fleet }: Account, owner?: Partial<Owner>): Record<string, string> {
  const { sandboxId, life } = owner ?? {}
  return {
    [FLEET]: fleet,
    ...(sandboxId !== undefined && { [SANDBOX]: sandboxId }),
    ...(life !== undefined && { [LIFE]: life }),
  }
}

/** Undefined where it is not of this fleet. */
export function ownerOf({ fleet }: Account, { metadata }: z.output<typeof Listed>): Owner | undefined {
  const { [FLEET]: owned, [SANDBOX]: sandboxId, [LIFE]: life } = metadata ?? {}
  return owned === fleet && sandboxId !== undefined && life !== undefined ? { sandboxId, life } : undefined
}

/**
 * What is true of a sandbox now; undefined when E2B says that there is none. One that carries the label of another fleet is not
 * touched. One that carries none was adopted: whoever knows its name has the right to it.
 */
export async function findInstance(account: Account, ref: string, call: Call): Promise<Instance | undefined> {
  const path = { sandboxID: ref }
  const { data } = await fetchFrom(account, call, Detail, (api, signal) =>
    api.GET('/sandboxes/{sandboxID}', { params: { path }, signal }),
  ).catch((error: unknown) => {
    if (isRefusal(error, 404) || isNoName(error)) return { data: undefined }
    throw error
  })
  if (!data) return undefined
  if (data.sandboxID !== ref && !ref.startsWith(`${data.sandboxID}-`))
    throw new Unanswered(new Error(`the answer is about ${data.sandboxID}, and the question was about ${ref}`))
  const fleet = data.metadata?.[FLEET]
  if (fleet !== undefined && fleet !== account.fleet)
    throw new BackendError('spec_invalid', `${ref} belongs to fleet ${fleet}, and this one is ${account.fleet}`)
  return {
    ref,
    isRunning: data.state === 'running',
    incarnation: data.startedAt.toISOString(),
    endsAt: data.endAt,
    owner: ownerOf(account, data),
    access: {
      envdVersion: data.envdVersion,
      ...(data.envdAccessToken && { envdAccessToken: data.envdAccessToken }),
      ...(data.domain && { sandboxDomain: data.domain }),
    },
  }
}

/** What can be no sandbox's name is none's. */
function isNoName(error: unknown): boolean {
  return error instanceof Refusal && error.is(400) && /invalid sandbox id/i.test(error.text)
}

export async function requireInstance(account: Account, ref: string, call: Call): Promise<Instance> {
  const instance = await findInstance(account, ref, call)
  if (!instance) throw expired(ref)
  return instance
}

export function expired(ref: string): BackendError {
  return new BackendError('sandbox_expired', `E2B says that there is no sandbox ${ref}`)
}

/** The incarnation that is meant, as long as it is the one that runs. */
export function requireRunning({ ref, isRunning, incarnation }: Instance, target: Target): void {
  if (!isRunning) throw overtaken(ref, 'it sleeps')
  if (incarnation !== target.incarnation)
    throw overtaken(ref, `it runs since ${incarnation}, and ${target.incarnation ?? 'one that does not run'} was meant`)
}

/** Fails unless the end is meant for what is there: this incarnation, or one that does not run. */
export function requireEndable(instance: Instance, target: Target): void {
  if (instance.isRunning) requireRunning(instance, target)
  else if (target.incarnation !== null)
    throw overtaken(instance.ref, `it sleeps, and what runs since ${target.incarnation} was meant`)
}
