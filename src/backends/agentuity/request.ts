import type { APIClient } from '@agentuity/server'
import { z } from 'zod'
import { SLOW_MS, unlessGivenUp } from '../answer.ts'
import { BackendError, type Call } from '../backend.ts'
import type { Account, Sdk } from './account.ts'
import { isRefusal, Refusal, translate } from './errors.ts'

/** `isSlow`: Agentuity takes its time for it. It answers a pause when the memory has been written. */
type Asking = { isSlow?: boolean; withinMs?: number }

/** What every function of the SDK is given. */
type Common = { orgId?: string }

/** One request, by a function of the SDK. It fails as a `Refusal`, or as `Unanswered`, and is never sent twice. */
export async function ask<T>(
  account: Account,
  call: Call,
  send: (sdk: Sdk, client: APIClient, common: Common) => Promise<T>,
  { isSlow = false, withinMs = account.patience.requestMs }: Asking = {},
): Promise<T> {
  call.signal.throwIfAborted()
  const late = AbortSignal.timeout(isSlow ? Math.max(SLOW_MS, withinMs) : withinMs)
  const client = account.client(AbortSignal.any([call.signal, late]))
  const common = account.orgId === undefined ? {} : { orgId: account.orgId }
  try {
    return await unlessGivenUp(send(account.sdk, client, common), call)
  } catch (error) {
    throw error instanceof BackendError ? error : translate(error)
  }
}

const NotFound = z.object({ success: z.literal(false), code: z.string().optional(), message: z.string() })

const THINGS = {
  sandbox: { path: '/sandbox/', code: 'SANDBOX_NOT_FOUND' },
  snapshot: { path: '/sandbox/snapshots/', code: 'SNAPSHOT_NOT_FOUND' },
} as const

/**
 * Whether Agentuity itself says that there is no such thing. The SDK keeps only the status of a 404, which any gateway can say; so
 * it is asked for once more, and what is said is read here.
 */
async function isGone(account: Account, thing: keyof typeof THINGS, id: string, call: Call): Promise<boolean> {
  const { path, code } = THINGS[thing]
  const query = account.orgId === undefined ? '' : `?orgId=${encodeURIComponent(account.orgId)}`
  const said = await ask(account, call, async (_sdk, client) => {
    const response = await client.rawGet(`${path}${encodeURIComponent(id)}${query}`)
    return { status: response.status, text: await response.text() }
  })
  if (said.status !== 404 && said.status !== 200) return false
  const parsed = NotFound.safeParse(parse(said.text))
  if (!parsed.success) return false
  const { code: told, message } = parsed.data
  return told === undefined ? new RegExp(`\\b${thing}( \\S+)? not found\\b`, 'i').test(message) : told === code
}

/** Undefined where there is no such thing; fails where only somebody else says so. */
export async function unlessGone<T>(
  account: Account,
  thing: keyof typeof THINGS,
  id: string,
  call: Call,
  asked: Promise<T>,
): Promise<T | undefined> {
  try {
    return await asked
  } catch (error) {
    if (isRefusal(error, 404) && (await isGone(account, thing, id, call))) return undefined
    throw error
  }
}

/**
 * A deletion. Agentuity may answer it with nothing, which the SDK takes for a failure, or say that there was nothing to delete: what
 * counts is whether it is gone.
 */
export async function remove(
  account: Account,
  thing: keyof typeof THINGS,
  id: string,
  call: Call,
  asked: Promise<unknown>,
): Promise<void> {
  try {
    await asked
  } catch (error) {
    if (call.signal.aborted || (error instanceof Refusal && error.status !== 404)) throw error
    if (!(await isGone(account, thing, id, call))) throw error
  }
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
