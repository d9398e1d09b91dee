import { describeError } from '../../errors.ts'
import { answering } from '../answer.ts'
import { BackendError, type BackendErrorType } from '../backend.ts'

const SHOWN_CHARS = 400

/** The engine, or somebody on the way to it, has answered, and has not done what was asked. */
export class Refusal extends Error {
  readonly status: number
  readonly text: string
  /** Whether it was said as the engine says things. */
  readonly isOwn: boolean

  constructor(status: number, text: string, { asked, isOwn }: { asked: string; isOwn: boolean }) {
    super(`${asked} was answered with ${status}: ${text.trim().slice(0, SHOWN_CHARS)}`)
    this.name = 'Refusal'
    this.status = status
    this.text = text
    this.isOwn = isOwn
  }

  /** By its status and the engine's own words, which are not the same in every version, nor in Podman. */
  says(status: number | readonly number[], words: RegExp): boolean {
    return [status].flat().includes(this.status) && this.isOwn && words.test(this.text)
  }
}

/** It was said to be well, and cannot be read: a page of somebody else. */
export class Unreadable extends Error {
  constructor(path: string, text: string) {
    super(`the answer to ${path} is not the engine's: ${text.trim().slice(0, SHOWN_CHARS)}`)
    this.name = 'Unreadable'
  }
}

/** That there is no such thing counts only when the engine says it of that very thing: a gateway has 404s of its own. */
export function isAbsent(error: unknown, what: 'container' | 'image', name: string): boolean {
  return error instanceof Refusal && error.says(404, new RegExp(`no such ${what}`, 'i')) && error.text.includes(name)
}

export function says(error: unknown, status: number | readonly number[], words: RegExp): boolean {
  return error instanceof Refusal && error.says(status, words)
}

const FULL = /no space left on device|disk quota exceeded/i

/** Not Node's own, which begin with ERR_ and complain about us; but for one, which says that a stream was cut. */
const SYSTEM_ERROR = /^(E(?!RR_)[A-Z0-9_]+|ERR_STREAM_PREMATURE_CLOSE|HPE_[A-Z_]+)$/

function typeOf(error: unknown): BackendErrorType | undefined {
  if (error instanceof Unreadable) return 'sandbox_unreachable'
  if (!(error instanceof Refusal))
    return SYSTEM_ERROR.test((error as NodeJS.ErrnoException).code ?? '') ? 'sandbox_unreachable' : undefined
  if (error.status === 401 || error.status === 403) return 'provider_unauthorized'
  if (error.status === 429) return 'rate_limited'
  return FULL.test(error.text) ? 'quota_exceeded' : 'sandbox_unreachable'
}

export const { answer, answerInPieces } = answering((what, error) => {
  const type = typeOf(error)
  return type && new BackendError(type, `The Docker engine did not ${what}: ${describeError(error)}`, { cause: error })
})
