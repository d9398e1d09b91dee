import type { Json } from './objects.ts'

export type Cause = { reason: string; message: string; field: string }
type Details = {
  name?: string
  group?: string
  kind?: string
  uid?: string
  causes?: Cause[]
  retryAfterSeconds?: number
}

/** What an object is called in the server's messages. */
export type Named = { group: string; plural: string; kind: string }

/** A failure in the server's own words. */
export class ApiError extends Error {
  readonly code: number
  readonly reason: string
  readonly details: Details | undefined

  constructor(code: number, reason: string, message: string, details?: Details) {
    super(message)
    this.name = 'ApiError'
    this.code = code
    this.reason = reason
    this.details = details
  }

  get status(): Json {
    const { code, reason, message, details } = this
    return {
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message,
      reason,
      ...(details && { details }),
      code,
    }
  }
}

export const qualified = ({ group, plural }: Named) => (group === '' ? plural : `${plural}.${group}`)

const detailsOf = ({ group, plural }: Named, name: string): Details => ({
  name,
  ...(group !== '' && { group }),
  kind: plural,
})

export const notFound = (what: Named, name: string) =>
  new ApiError(404, 'NotFound', `${qualified(what)} "${name}" not found`, detailsOf(what, name))

export const alreadyExists = (what: Named, name: string, isTerminating: boolean) =>
  new ApiError(
    409,
    'AlreadyExists',
    `${isTerminating ? 'object is being deleted: ' : ''}${qualified(what)} "${name}" already exists`,
    detailsOf(what, name),
  )

const unfulfilled = (what: Named, name: string, why: string) =>
  new ApiError(
    409,
    'Conflict',
    `Operation cannot be fulfilled on ${qualified(what)} "${name}": ${why}`,
    detailsOf(what, name),
  )

export const conflict = (what: Named, name: string) =>
  unfulfilled(what, name, 'the object has been modified; please apply your changes to the latest version and try again')

export const preconditionFailed = (what: Named, name: string, key: string, asked: string, is: string) =>
  unfulfilled(
    what,
    name,
    `[StorageError: invalid object, Code: 4, Key: /registry/${what.plural}/${name}, ResourceVersion: 0, AdditionalErrorMsg: ` +
      `Precondition failed: ${key} in precondition: ${asked}, ${key} in object meta: ${is}]`,
  )

export const invalid = ({ group, kind }: Named, name: string, causes: Cause[]) => {
  const said = causes.map(({ field, message }) => `${field}: ${message}`)
  const list = said.length === 1 ? said[0] : `[${said.join(', ')}]`
  const what = group === '' ? kind : `${kind}.${group}`
  return new ApiError(422, 'Invalid', `${what} "${name}" is invalid: ${list}`, {
    name,
    ...(group !== '' && { group }),
    kind,
    causes,
  })
}

export const rejectedPatch = () =>
  new ApiError(422, 'Invalid', 'the server rejected our request due to an error in our request')

export const badRequest = (message: string) => new ApiError(400, 'BadRequest', message)

export const unsupportedMediaType = (accepted: readonly string[]) =>
  new ApiError(
    415,
    'UnsupportedMediaType',
    `the body of the request was in an unknown format - accepted media types include: ${accepted.join(', ')}`,
  )

export const unauthorized = () => new ApiError(401, 'Unauthorized', 'Unauthorized')

export const methodNotAllowed = () =>
  new ApiError(405, 'MethodNotAllowed', 'the server does not allow this method on the requested resource')

export const expired = (asked: number, oldest: number) =>
  new ApiError(410, 'Expired', `too old resource version: ${asked} (${oldest})`)

export const expiredContinue = () =>
  new ApiError(
    410,
    'Expired',
    'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
  )

export const quotaExceeded = (what: Named, name: string, why: string) =>
  new ApiError(
    403,
    'Forbidden',
    `${qualified(what)} "${name}" is forbidden: exceeded quota: ${why}`,
    detailsOf(what, name),
  )

export const tooManyRequests = (retryAfterSeconds = 1) =>
  new ApiError(
    429,
    'TooManyRequests',
    'the server has received too many requests and has asked us to try again later',
    {
      retryAfterSeconds,
    },
  )
