import { ApiError } from './api-error.ts'
import type { Json } from './objects.ts'
import type { Asked } from './requests.ts'

export type Matching = { method?: string; path?: RegExp; verb?: string; resource?: string }

/** What may happen to a request instead of its answer, or to the answer. */
export type Fault =
  /** Text is sent as it is, anything else as JSON. Nothing is done. */
  | { status: number; body?: string | Json; type?: string; headers?: Record<string, string> }
  | 'reset'
  | 'hang'
  /** It is done, and nobody hears of it. */
  | 'lost answer'
  /** It is done, and only the first half of the answer arrives. */
  | 'cut answer'
  | { delayMs: number }

/** A failure in the server's own words, such as `tooManyRequests()`. */
export function apiFault({ code, status, details }: ApiError): Fault {
  const seconds = details?.retryAfterSeconds
  return { status: code, body: status, ...(seconds !== undefined && { headers: { 'retry-after': String(seconds) } }) }
}

/** What servers say when they cannot. */
export const SERVER = {
  internalError: apiFault(new ApiError(500, 'InternalError', 'Internal error occurred: etcdserver: request timed out')),
  unavailable: apiFault(
    new ApiError(503, 'ServiceUnavailable', 'the server is currently unable to handle the request'),
  ),
  timeout: apiFault(new ApiError(504, 'Timeout', 'request did not complete within the allowed duration')),
} as const satisfies Record<string, Fault>

/** What gateways say, who know nothing of objects. */
export const GATEWAY = {
  plain404: { status: 404, body: '404 page not found\n', type: 'text/plain' },
  html502: { status: 502, body: '<html><head><title>502 Bad Gateway</title></head></html>', type: 'text/html' },
  bare503: { status: 503, body: 'upstream connect error', type: 'text/plain' },
  untyped200: { status: 200, body: '{}', type: '' },
} as const satisfies Record<string, Fault>

/** Which fault the next request of a kind meets. */
export class Faults {
  #scripted: { matching: Matching; fault: Fault; left: number }[] = []

  next(matching: Matching, fault: Fault, times: number): void {
    this.#scripted.push({ matching, fault, left: times })
  }

  heal(): void {
    this.#scripted = []
  }

  take(asked: Asked): Fault | undefined {
    const found = this.#scripted.find(({ matching }) => isMatch(matching, asked))
    if (!found) return undefined
    found.left -= 1
    if (found.left <= 0) this.#scripted = this.#scripted.filter((one) => one !== found)
    return found.fault
  }
}

function isMatch({ method, path, verb, resource }: Matching, asked: Asked): boolean {
  return (
    (method === undefined || method === asked.method) &&
    (path === undefined || path.test(asked.path)) &&
    (verb === undefined || verb === asked.verb) &&
    (resource === undefined || resource === asked.resource)
  )
}
