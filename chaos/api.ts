import { setTimeout as sleep } from 'node:timers/promises'
import type { Random } from '../proof/random.ts'
import type { Asked, CameTo, Diary, Told } from './diary.ts'

type Named = { id: string; sandbox_id: string; status: string }
type Body = {
  operation?: Named & { outcome: string | null; checkpoint: string | null }
  execution?: Named & { output_bytes: number; outcome?: undefined }
  error_type?: string
  message?: string
}

/** What is definite: accepted, settled, or refused. Everything else is asked again, under the same key. */
export type Answer = { status: number; body: Body; told: Told | undefined }

type ApiOptions = { webs: readonly string[]; token: string; diary: Diary }

/** A request without an answer is given up after this, and asked again. */
const ANSWER_MS = 12_000
const AGAIN_MS = [50, 600] as const
/** Some lose their patience, or their network, long before that. */
const IMPATIENT = { share: 0.05, ms: [5, 200] } as const
/** And some ask twice at once, because somebody has clicked twice. */
const TWICE_SHARE = 0.05

/** Asks as a careful client does: with an idempotency key, and until it knows. */
export class Api {
  readonly #options: ApiOptions
  readonly #random: Random

  constructor(options: ApiOptions, random: Random) {
    this.#options = options
    this.#random = random
  }

  async ask(asked: Asked, route: string, body: object, signal: AbortSignal): Promise<Answer | undefined> {
    const send = () => this.#untilDefinite(asked, route, body, signal)
    const [first, second] = await Promise.all(this.#random.chance(TWICE_SHARE) ? [send(), send()] : [send()])
    const answer = first ?? second
    if (!answer) this.#options.diary.unanswered.push(asked)
    else if (!answer.told && answer.body.error_type) this.#options.diary.refused(answer.body.error_type)
    return answer
  }

  async #untilDefinite(asked: Asked, route: string, body: object, signal: AbortSignal): Promise<Answer | undefined> {
    while (!signal.aborted) {
      const answer = await this.#send(asked, route, body, signal)
      if (answer && (answer.told || (answer.status < 500 && answer.status !== 429))) return answer
      await sleep(this.#random.between(...AGAIN_MS), undefined, { signal }).catch(() => {})
    }
    return undefined
  }

  async #send(asked: Asked, route: string, body: object, signal: AbortSignal): Promise<Answer | undefined> {
    const { webs, token, diary } = this.#options
    const web = this.#random.below(webs.length)
    const patienceMs = this.#random.chance(IMPATIENT.share) ? this.#random.between(...IMPATIENT.ms) : ANSWER_MS
    const sentAt = Date.now()
    try {
      const response = await fetch(`${webs[web]}${route}`, {
        method: 'POST',
        headers: {
          authorization: `Bearer ${token}`,
          'content-type': 'application/json',
          'idempotency-key': asked.key,
        },
        body: JSON.stringify(body),
        signal: AbortSignal.any([signal, AbortSignal.timeout(patienceMs)]),
      })
      const answer = (await response.json()) as Body
      diary.count(response.status)
      const named = answer.operation ?? answer.execution
      const when = { web, sentAt, answeredAt: Date.now() }
      const told = named && {
        ...asked,
        ...when,
        status: response.status,
        id: named.id,
        sandboxId: named.sandbox_id,
        ...cameTo(answer),
      }
      if (told) diary.told.push(told)
      return { status: response.status, body: answer, told }
    } catch {
      diary.count('no_answer')
      return undefined
    }
  }
}

function cameTo({ operation }: Body): { cameTo?: CameTo } {
  if (!operation || operation.status === 'waiting' || operation.status === 'active') return {}
  const { status, outcome, checkpoint } = operation
  return { cameTo: { status, outcome, checkpointId: checkpoint } }
}
