import type { ApiClient } from 'e2b'
import type { z } from 'zod'
import { SLOW_MS, unlessGivenUp } from '../answer.ts'
import type { Call } from '../backend.ts'
import type { Account } from './account.ts'
import { Refusal, Unanswered } from './errors.ts'

type Api = ApiClient['api']
type Answer = { data?: unknown; error?: unknown; response: Response }

/** `isSlow`: E2B takes its time for it. It answers a pause when the memory has been written. */
type Asking = { isSlow?: boolean }

/**
 * One request to the API, by the SDK's own client. Any answer that is not a success is a `Refusal`, and no answer, or one that
 * cannot be read, is `Unanswered`.
 */
async function ask(
  { api, requestTimeoutMs }: Account,
  call: Call,
  send: (api: Api, signal: AbortSignal) => Promise<Answer>,
  { isSlow = false }: Asking,
): Promise<Answer> {
  const late = AbortSignal.timeout(isSlow ? Math.max(SLOW_MS, requestTimeoutMs) : requestTimeoutMs)
  let answer: Answer
  try {
    answer = await unlessGivenUp(send(api, AbortSignal.any([call.signal, late])), call)
  } catch (error) {
    throw new Unanswered(error)
  }
  if (!answer.response.ok) throw new Refusal(answer.response.status, answer.error)
  return answer
}

/** One that is answered with something, which has to be what it is said to be: a page of somebody else is no answer. */
export async function fetchFrom<T>(
  account: Account,
  call: Call,
  schema: z.ZodType<T>,
  send: (api: Api, signal: AbortSignal) => Promise<Answer>,
  asking: Asking = {},
): Promise<{ data: T; next: string | undefined }> {
  const { data, response } = await ask(account, call, send, asking)
  const parsed = schema.safeParse(data)
  if (!parsed.success) throw new Unanswered(parsed.error)
  return { data: parsed.data, next: response.headers.get('x-next-token') || undefined }
}

/** One that is answered with nothing. */
export async function tell(
  account: Account,
  call: Call,
  send: (api: Api, signal: AbortSignal) => Promise<Answer>,
  asking: Asking = {},
): Promise<void> {
  const { response } = await ask(account, call, send, asking)
  if (response.status !== 204) throw new Unanswered(new Error(`${response.status} is no answer to this`))
}
